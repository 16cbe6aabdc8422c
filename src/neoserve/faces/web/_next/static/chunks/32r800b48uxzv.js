__turbopack_load_page_chunks__("/cost", [
  "static/chunks/0jyh2gnw1pzf8.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/0uhh391biip0p.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
