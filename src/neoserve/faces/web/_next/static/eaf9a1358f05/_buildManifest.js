self.__BUILD_MANIFEST = {
  "/": [
    "static/chunks/15b6u39-7kuv5.js"
  ],
  "/404": [
    "static/chunks/2ign66kxznbu1.js"
  ],
  "/_error": [
    "static/chunks/1_il-702jv0po.js"
  ],
  "/agent": [
    "static/chunks/2omgp0vdwz5vk.js"
  ],
  "/campaign": [
    "static/chunks/278gs-p7pkvf6.js"
  ],
  "/cost": [
    "static/chunks/3raiz9dyw1yzx.js"
  ],
  "/evidence": [
    "static/chunks/32hbp5q6udlg7.js"
  ],
  "/hardware": [
    "static/chunks/2td-5f1e4v5fp.js"
  ],
  "/ledger": [
    "static/chunks/25a_fxdnzfmya.js"
  ],
  "/plan": [
    "static/chunks/33bvx2tbtr75v.js"
  ],
  "__rewrites": {
    "afterFiles": [],
    "beforeFiles": [],
    "fallback": []
  },
  "sortedPages": [
    "/",
    "/404",
    "/_app",
    "/_error",
    "/agent",
    "/campaign",
    "/cost",
    "/evidence",
    "/hardware",
    "/ledger",
    "/plan"
  ]
};self.__TURBOPACK_PAGE_BOOTSTRAP = {"/404":{"otherChunks":["static/chunks/1muk0z5w29tqh.js"],"runtimeModuleIds":[783,8458]},"/agent":{"otherChunks":["static/chunks/1ok5yqddgn3w5.js"],"runtimeModuleIds":[783,5579]},"/campaign":{"otherChunks":["static/chunks/3pfw6llw9jzya.js","static/chunks/0g7cspwk3tqpx.js"],"runtimeModuleIds":[783,7102]},"/cost":{"otherChunks":["static/chunks/0jyh2gnw1pzf8.js","static/chunks/1d78zr10zxxg9.js","static/chunks/0g7cspwk3tqpx.js"],"runtimeModuleIds":[783,2868]},"/evidence":{"otherChunks":["static/chunks/0g7cspwk3tqpx.js","static/chunks/2gk8vc3avx17i.js"],"runtimeModuleIds":[783,5284]},"/hardware":{"otherChunks":["static/chunks/1ewvv476xs1cv.js","static/chunks/23km3vn0pk16a.js"],"runtimeModuleIds":[783,1394]},"/":{"otherChunks":["static/chunks/0g0adbl2or1of.js","static/chunks/0g7cspwk3tqpx.js","static/chunks/1iv0ieti9zsx6.js"],"runtimeModuleIds":[783,9675]},"/ledger":{"otherChunks":["static/chunks/278bl_3t9hhsq.js"],"runtimeModuleIds":[783,5061]},"/plan":{"otherChunks":["static/chunks/0v2s3ayzp_yns.js","static/chunks/01efntn36whq_.js"],"runtimeModuleIds":[783,2292]},"/_app":{"otherChunks":["static/chunks/3p4h8lrci8pz8.js","static/chunks/38k7p0oxw2d-1.js","static/chunks/418mj0qxe5an5.js","static/chunks/2asqi-zlbsn_d.css"],"runtimeModuleIds":[783,8146]},"/_error":{"otherChunks":["static/chunks/306euk3hkl2h4.js"],"runtimeModuleIds":[783,184]}};self.__TURBOPACK_CHUNK_LOADING_GLOBAL = "TURBOPACK";self.__BUILD_MANIFEST_CB && self.__BUILD_MANIFEST_CB()