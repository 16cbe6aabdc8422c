__turbopack_load_page_chunks__("/", [
  "static/chunks/0j88_qhlfbom-.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/2kj4rwhg-k5bb.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
