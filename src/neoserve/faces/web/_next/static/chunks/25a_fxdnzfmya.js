__turbopack_load_page_chunks__("/ledger", [
  "static/chunks/278bl_3t9hhsq.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
