// Types of the conversation protocol, see docs/protocol.md.

export type State = 'streaming' | 'done';

export type TextPart = { type: 'text' | 'reasoning'; text: string; state: State };
export type FilePart = { type: 'file'; id?: string; mediaType: string; size?: number; filename?: string };
export type ToolPart = {
  type: 'dynamic-tool';
  toolName: string;
  toolCallId: string;
  input: unknown;
  state: 'input-available' | 'output-available' | 'output-error';
  output?: unknown;
  errorText?: string;
  durationMs?: number;
};
export type DataPart = { type: `data-${string}`; data: unknown };
export type Part = TextPart | FilePart | ToolPart | DataPart;

export type Message = {
  id: string;
  role: 'user' | 'assistant' | 'system';
  purpose: string;
  display: 'visible' | 'diagnostic' | 'hidden';
  parts: Part[];
  submissionId?: string;
  turnId?: string;
  signal?: { type?: string; tagName?: string; attributes?: Record<string, string> };
  metadata?: Record<string, unknown>;
};

export type SettlementError = { type: string; message: string; meta?: Record<string, unknown> };
export type Settlement = { submissionId: string; outcome: 'completed' | 'failed' | 'aborted'; error?: SettlementError };

export type Snapshot = { conversationId: string; offset: string; messages: Message[]; settlements: Settlement[] };
export type Position = { batch: number; index: number };

type ChunkBody =
  | { type: 'conversation-reset'; snapshot: Snapshot }
  | { type: 'message-appended'; message: Message }
  | { type: 'message-started'; messageId: string; submissionId?: string; turnId?: string; metadata?: Record<string, unknown> }
  | { type: 'message-metadata'; messageId: string; metadata: Record<string, unknown> }
  | { type: 'data-part'; messageId: string; name: string; data: unknown }
  | { type: 'message-delta'; messageId: string; kind: 'text' | 'reasoning'; delta: string }
  | { type: 'tool-input'; messageId: string; toolCallId: string; toolName: string; input: unknown }
  | { type: 'tool-output'; toolCallId: string; output: unknown; durationMs?: number }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string; durationMs?: number }
  | { type: 'message-completed'; messageId: string }
  | { type: 'submission-settled'; submissionId: string; outcome: Settlement['outcome']; error?: SettlementError };

export type Chunk = ChunkBody & { conversationId: string; position: Position };

export type Attachment = { type: 'image'; mimeType: string; data: string; filename?: string };
export type Delivery = {
  kind: 'user';
  body: string;
  attachments?: Attachment[];
  initialData?: unknown;
  idempotencyKey: string;
};
export type Receipt = { streamUrl: string; offset: string; submissionId: string; uid: string };
