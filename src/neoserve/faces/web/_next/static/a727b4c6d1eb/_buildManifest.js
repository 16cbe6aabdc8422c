self.__BUILD_MANIFEST = {
  "/": [
    "static/chunks/298hso3f8ivzy.js"
  ],
  "/404": [
    "static/chunks/3ywe2ulfzjcy3.js"
  ],
  "/_error": [
    "static/chunks/1_il-702jv0po.js"
  ],
  "/agent": [
    "static/chunks/372bf11nopxgp.js"
  ],
  "/campaign": [
    "static/chunks/2bwm0hj2rnjfu.js"
  ],
  "/cost": [
    "static/chunks/1hx1m28wqsqqh.js"
  ],
  "/evidence": [
    "static/chunks/2a-77d3bk78hk.js"
  ],
  "/hardware": [
    "static/chunks/0xs3tr9xyudlb.js"
  ],
  "/ledger": [
    "static/chunks/2dq8tm_-_buc0.js"
  ],
  "/plan": [
    "static/chunks/0nngvc371fxs9.js"
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
};self.__TURBOPACK_PAGE_BOOTSTRAP = {"/404":{"otherChunks":["static/chunks/1bzd5j7jit8hn.js"],"runtimeModuleIds":[783,8458]},"/agent":{"otherChunks":["static/chunks/11errgapu5wpe.js"],"runtimeModuleIds":[783,5579]},"/campaign":{"otherChunks":["static/chunks/24ki7l_cffokq.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,7102]},"/cost":{"otherChunks":["static/chunks/3mj6punnefyhb.js","static/chunks/0re77bklofj_a.js","static/chunks/2pw7o4_ve-cjo.js"],"runtimeModuleIds":[783,2868]},"/evidence":{"otherChunks":["static/chunks/3-6lf58nz7dle.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,5284]},"/hardware":{"otherChunks":["static/chunks/1ic0x26k76vhd.js"],"runtimeModuleIds":[783,1394]},"/":{"otherChunks":["static/chunks/21jws0qp7pmk4.js","static/chunks/0re77bklofj_a.js","static/chunks/09nud-7njcmel.js"],"runtimeModuleIds":[783,9675]},"/ledger":{"otherChunks":["static/chunks/3mwftlzplg4oh.js"],"runtimeModuleIds":[783,5061]},"/plan":{"otherChunks":["static/chunks/33blcd2cy09wy.js"],"runtimeModuleIds":[783,2292]},"/_app":{"otherChunks":["static/chunks/3p4h8lrci8pz8.js","static/chunks/38k7p0oxw2d-1.js","static/chunks/418mj0qxe5an5.js","static/chunks/074i_syksalxx.css"],"runtimeModuleIds":[783,8146]},"/_error":{"otherChunks":["static/chunks/306euk3hkl2h4.js"],"runtimeModuleIds":[783,184]}};self.__TURBOPACK_CHUNK_LOADING_GLOBAL = "TURBOPACK";self.__BUILD_MANIFEST_CB && self.__BUILD_MANIFEST_CB()