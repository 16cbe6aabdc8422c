__turbopack_load_page_chunks__("/cost", [
  "static/chunks/0sl4p2euxifpo.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/18p-g6f5et_z1.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
