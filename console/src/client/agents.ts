import { getJSON } from './http';

/** An agent that this server has mounted. */
export type Agent = {
  name: string;
  description?: string;
  model: string;
  mounts: string[];
  /** The JSON schema of the initial data. */
  initialData?: unknown;
};

/** The initial data of the page. */
export type Server = {
  mode: 'dev' | 'serve';
  /** There are further pages. */
  folder?: boolean;
  version: string;
  agents: Agent[];
  /** The agent is the demo agent. */
  demo?: boolean;
  /** The configuration file, if there is one. */
  file?: string;
  /** More request headers, which `cors` of the configuration lists. */
  headers?: string[];
  /** The mistakes of the current file; the previous one is served. */
  problems?: { text: string; line?: number; column?: number }[];
};

/** Definitions below are not part of the protocol. */
export const prefix = '/+console';

export const getServer = (signal?: AbortSignal) => getJSON<Server>(`${prefix}/api/server`, signal);
