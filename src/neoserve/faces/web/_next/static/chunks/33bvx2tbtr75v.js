__turbopack_load_page_chunks__("/plan", [
  "static/chunks/0v2s3ayzp_yns.js",
  "static/chunks/01efntn36whq_.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
