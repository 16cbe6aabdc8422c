import { useId, type ReactNode } from "react";
import type { Schema } from "../lib/mcp";
import { Field } from "./parts";

type Values = Record<string, string>;

/** A tool's input schema as fields. Text goes out as typed: the server reads `30m` and `5%` itself. */
export function SchemaFields({ schema, names, values, onChange }: {
  schema: Schema; names: string[]; values: Values; onChange: (values: Values) => void;
}): ReactNode {
  return names.map((name) => (
    <SchemaField key={name} name={name} of={schema.properties?.[name] ?? {}} value={values[name] ?? ""}
      isRequired={schema.required?.includes(name) ?? false}
      onChange={(value) => onChange({ ...values, [name]: value })} />
  ));
}

function SchemaField({ name, of, value, isRequired, onChange }: {
  name: string; of: Schema; value: string; isRequired: boolean; onChange: (value: string) => void;
}): ReactNode {
  const id = useId();
  const about = `${id}-about`;
  const same = { id, value, required: isRequired, "aria-describedby": about };
  return (
    <Field label={name.replaceAll("_", " ")} hint={isRequired ? "needed" : ""} htmlFor={id}>
      {of.enum ? (
        <select {...same} onChange={(event) => onChange(event.target.value)}>
          <option value="">as usual</option>
          {of.enum.map((word) => <option key={word} value={word}>{word}</option>)}
        </select>
      ) : (
        <input {...same} type="text" className="mono" spellCheck={false} autoComplete="off"
          inputMode={of.type === "integer" ? "numeric" : undefined}
          onChange={(event) => onChange(event.target.value)} />
      )}
      <p id={about} className="about">{of.description}</p>
    </Field>
  );
}
