__turbopack_load_page_chunks__("/ledger", [
  "static/chunks/3mwftlzplg4oh.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
