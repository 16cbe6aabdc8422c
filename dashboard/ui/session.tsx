import { useEffect, useState, type ReactNode } from "react";
import { getJson } from "../lib/api";

interface Status {
  version: string; needs_token: boolean; has_token: boolean; may_tune: boolean; results: string[];
}

/** Takes a token out of the address, and asks for one where the server wants it. */
export function Session(): ReactNode {
  const [status, setStatus] = useState<Status | null>(null);
  const [token, setToken] = useState("");
  const [fault, setFault] = useState("");

  useEffect(() => {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    const start = async (): Promise<void> => {
      if (given) {
        history.replaceState(history.state, "", location.pathname + location.search);
        await exchange(given).catch(() => undefined);
      }
      const found = await getJson<Status>("/api/status");
      if (given && found.has_token && found.needs_token) location.reload();
      setStatus(found);
    };
    start().catch(() => setStatus(null));
  }, []);

  if (!status) return <div className="session" />;
  if (!status.needs_token || status.has_token) {
    return <div className="session num">v{status.version}{status.results.length > 0 && <span> · {status.results.join(", ")}</span>}</div>;
  }
  return (
    <form className="session ask-token" onSubmit={(event) => {
      event.preventDefault();
      exchange(token).then(() => location.reload(), (error: Error) => setFault(error.message));
    }}>
      <label htmlFor="token">This server wants its token</label>
      <input id="token" type="password" value={token} autoComplete="off"
        onChange={(event) => setToken(event.target.value)} />
      <button type="submit">Enter</button>
      {fault && <span role="alert" className="fault">{fault}</span>}
    </form>
  );
}

async function exchange(token: string): Promise<void> {
  const response = await fetch("/api/session", {
    method: "POST", headers: { authorization: `Bearer ${token}` },
  });
  if (!response.ok) throw new Error("the token is not the one that the server printed");
}
