import { useId, useState, type ReactNode } from "react";
import { useLoad } from "../lib/state";
import { exchange, serverStatus } from "../lib/status";

export const useStatus = () => useLoad("status", serverStatus);

/** What is served here; or the question for a token, where the server wants one for everything. */
export function Session(): ReactNode {
  const { data: status } = useStatus();
  if (!status) return <div className="session" />;
  if (status.needs_token && !status.has_token) {
    return <div className="session"><TokenForm label="This server wants its token" /></div>;
  }
  return <div className="session num">v{status.version}{status.results.length > 0 && <span> · {status.results.join(", ")}</span>}</div>;
}

export function TokenForm({ label }: { label: string }): ReactNode {
  const id = useId();
  const [token, setToken] = useState("");
  const [fault, setFault] = useState("");
  return (
    <form className="ask-token" onSubmit={(event) => {
      event.preventDefault();
      exchange(token).then(() => location.reload(), (error: Error) => setFault(error.message));
    }}>
      <label htmlFor={id}>{label}</label>
      <input id={id} type="password" value={token} autoComplete="off"
        onChange={(event) => setToken(event.target.value)} />
      <button type="submit">Enter</button>
      {fault && <span role="alert" className="fault">{fault}</span>}
    </form>
  );
}
