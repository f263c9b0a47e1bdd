import { useState } from 'preact/hooks';

/** The part of a JSON schema that a form supports. */
export type Schema = {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  format?: string;
};

/** The state of a form: the texts of its fields, or the whole value as JSON. */
type Draft = { fields: Record<string, string | boolean>; raw: string };

const kindOf = (s: Schema): string => {
  const types = (Array.isArray(s.type) ? s.type : [s.type]).filter((t) => t !== 'null');
  if (s.enum) return 'enum';
  return types.length === 1 && types[0] && ['string', 'integer', 'number', 'boolean'].includes(types[0]) ? types[0] : 'json';
};

/** Whether a schema has fields that a form supports. */
export const hasForm = (s: Schema): boolean => Object.keys(s.properties ?? {}).length > 0;

/** The value of a form, or its mistake. */
export function read(schema: Schema, draft: Draft, asJSON: boolean): { value?: unknown; problem?: string } {
  if (asJSON || !hasForm(schema)) {
    if (draft.raw.trim() === '') return {};
    try {
      return { value: JSON.parse(draft.raw) };
    } catch (e) {
      return { problem: `The initial data is not JSON: ${(e as Error).message}` };
    }
  }
  const value: Record<string, unknown> = {};
  for (const [name, s] of Object.entries(schema.properties!)) {
    const required = schema.required?.includes(name) ?? false;
    const given = draft.fields[name] ?? initial(s);
    const kind = kindOf(s);
    if (kind === 'boolean') {
      if (given === true || required) value[name] = given === true;
      continue;
    }
    const text = String(given);
    if (text.trim() === '') {
      if (required) return { problem: `${name} is missing.` };
      continue;
    }
    if (kind === 'string') value[name] = text;
    else if (kind === 'enum') value[name] = s.enum!.find((v) => String(v) === text);
    else {
      try {
        value[name] = JSON.parse(text);
      } catch {
        return { problem: kind === 'json' ? `${name} is not JSON.` : `${name} is not a number.` };
      }
    }
  }
  return { value };
}

function initial(s: Schema): string | boolean {
  if (kindOf(s) === 'boolean') return s.default === true;
  if (s.default === undefined) return '';
  return typeof s.default === 'string' ? s.default : JSON.stringify(s.default);
}

/** The state of a form, and its value. */
export function useInitialData(schema: Schema | undefined) {
  const [draft, setDraft] = useState<Draft>({ fields: {}, raw: '' });
  const [asJSON, setAsJSON] = useState(false);
  return {
    result: schema ? read(schema, draft, asJSON) : {},
    form: schema && <Form schema={schema} draft={draft} change={setDraft} asJSON={asJSON} switchTo={setAsJSON} />,
  };
}

type FormProps = { schema: Schema; draft: Draft; change: (d: Draft) => void; asJSON: boolean; switchTo: (b: boolean) => void };

function Form({ schema, draft, change, asJSON, switchTo }: FormProps) {
  const set = (name: string, v: string | boolean) => change({ ...draft, fields: { ...draft.fields, [name]: v } });
  const raw = asJSON || !hasForm(schema);
  return (
    <fieldset class="initial">
      <legend>{schema.title ?? 'Initial data'}</legend>
      {schema.description && <p class="dim">{schema.description}</p>}
      {raw
        ? <label>JSON<textarea rows={4} value={draft.raw} onInput={(e) => change({ ...draft, raw: e.currentTarget.value })} /></label>
        : Object.entries(schema.properties!).map(([name, s]) => (
          <Field key={name} name={name} schema={s} required={schema.required?.includes(name) ?? false} value={draft.fields[name] ?? initial(s)} set={(v) => set(name, v)} />
        ))}
      {hasForm(schema) && (
        <label class="check"><input type="checkbox" checked={asJSON} onChange={(e) => switchTo(e.currentTarget.checked)} /> Write it as JSON</label>
      )}
    </fieldset>
  );
}

type FieldProps = { name: string; schema: Schema; required: boolean; value: string | boolean; set: (v: string | boolean) => void };

function Field({ name, schema, required, value, set }: FieldProps) {
  const label = <>{schema.title ?? name}{required ? <span class="must" title="required" aria-hidden="true"> *</span> : <span class="dim"> optional</span>}</>;
  const about = schema.description && <small class="dim">{schema.description}</small>;
  const kind = kindOf(schema);
  if (kind === 'boolean') {
    return <label class="check"><input type="checkbox" checked={value === true} onChange={(e) => set(e.currentTarget.checked)} /> {label} {about}</label>;
  }
  const text = String(value);
  let input;
  if (kind === 'enum') {
    input = (
      <select required={required} value={text} onChange={(e) => set(e.currentTarget.value)}>
        <option value="">–</option>
        {schema.enum!.map((v) => <option key={String(v)} value={String(v)}>{String(v)}</option>)}
      </select>
    );
  } else if (kind === 'json') {
    input = <textarea rows={2} required={required} placeholder="JSON" value={text} onInput={(e) => set(e.currentTarget.value)} />;
  } else {
    const change = (e: { currentTarget: HTMLInputElement }) => set(e.currentTarget.value);
    input = kind === 'string'
      ? <input type="text" list={undefined} required={required} value={text} onInput={change} />
      : <input type="number" step={kind === 'integer' ? 1 : 'any'} required={required} min={schema.minimum} max={schema.maximum} value={text} onInput={change} />;
  }
  return <label>{label}{input}{about}</label>;
}
