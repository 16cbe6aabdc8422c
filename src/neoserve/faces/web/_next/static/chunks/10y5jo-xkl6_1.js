__turbopack_load_page_chunks__("/_app", [
  "static/chunks/3p4h8lrci8pz8.js",
  "static/chunks/38k7p0oxw2d-1.js",
  "static/chunks/418mj0qxe5an5.js",
  "static/chunks/2asqi-zlbsn_d.css",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
