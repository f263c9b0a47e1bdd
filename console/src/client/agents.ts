import { getJSON } from './http';

/** An agent that this server has mounted. */
export type Agent = {
  name: string;
  description?: string;
  model: string;
  mounts: string[];
  /** The JSON schema of what a conversation begins with. */
  initialData?: unknown;
};

/** What a page begins with. */
export type Server = {
  mode: 'dev' | 'serve';
  /** There are pages beside the chat. */
  folder?: boolean;
  version: string;
  agents: Agent[];
  /** The agent is the demo's. */
  demo?: boolean;
  /** The configuration file, if there is one. */
  file?: string;
  /** More request headers, which `cors` of the configuration lists. */
  headers?: string[];
  /** What is wrong with the file as it is now; the one before serves. */
  problems?: { text: string; line?: number; column?: number }[];
};

/** Below here is what is no part of the protocol. */
export const prefix = '/+console';

export const getServer = (signal?: AbortSignal) => getJSON<Server>(`${prefix}/api/server`, signal);
