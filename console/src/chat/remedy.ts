import type { Settlement } from '../client/types';

const remedies: Record<string, string> = {
  model_failed: 'Check the API key, the name of the model and the limits of the account, then send the message again.',
  model_output_too_long: 'Raise the output limit of the agent, ask for less, or let it call a tool for the long part.',
  submission_retry_exhausted: 'Every attempt that the agent allows was lost. Its timeline shows where; then send the message again.',
  submission_timeout: 'Raise durability.timeout of the agent, or ask for less at a time.',
  submission_output_missing: 'The model ended without the result that the agent must return. Name the tool for it in the instructions.',
  submission_limit_reached: 'Raise the limit of the agent under limits, or begin a new conversation.',
  submission_aborted: 'The reply up to here is kept. Send another message to go on.',
  internal_error: 'Its timeline shows the step that failed. The server logs the error with this submission.',
};

/** The next step after an outcome, "" if none is known. */
export function remedy(s: Settlement): string {
  return (s.error && remedies[s.error.type]) ?? '';
}

/** The values of an error, in addition to its message. */
export function facts(s: Settlement): string {
  const entries = Object.entries(s.error?.meta ?? {});
  return entries.map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ');
}
