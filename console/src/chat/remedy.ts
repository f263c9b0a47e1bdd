import type { Settlement } from '../client/types';

const remedies: Record<string, string> = {
  model_failed: 'The log of the server has the words of the vendor: look at the key, the name of the model and the limits of the account, then send the message again.',
  model_output_too_long: 'Raise what the agent may write, ask for less, or let it call a tool for the long part.',
  submission_retry_exhausted: 'It was tried as often as the agent allows. Look at the log of the server for why the attempts ended, then send the message again.',
  submission_timeout: 'It took longer than the agent allows: raise its durability.timeout, or ask for less at a time.',
  submission_output_missing: 'The model ended without the result that the agent must give. Say in its instructions when to call the tool for it.',
  submission_limit_reached: 'A limit of the agent was reached. Raise it under limits, or begin a new conversation.',
  submission_aborted: 'What was said until then stays. Send another message to go on.',
  internal_error: 'The log of the server says what happened.',
};

/** What to do about an outcome, "" if nothing is known. */
export function remedy(s: Settlement): string {
  return (s.error && remedies[s.error.type]) ?? '';
}

/** The facts of an error beside its words. */
export function facts(s: Settlement): string {
  const entries = Object.entries(s.error?.meta ?? {});
  return entries.map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ');
}
