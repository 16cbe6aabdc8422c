__turbopack_load_page_chunks__("/hardware", [
  "static/chunks/1ic0x26k76vhd.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
