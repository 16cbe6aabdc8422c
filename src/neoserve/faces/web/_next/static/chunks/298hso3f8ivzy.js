__turbopack_load_page_chunks__("/", [
  "static/chunks/21jws0qp7pmk4.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/09nud-7njcmel.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
