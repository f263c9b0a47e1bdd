import type { Server } from '../client/agents';
import { Code } from '../markdown';
import { freshID, go } from '../route';

/** The start page for new users. */
export function Start({ server }: { server: Server }) {
  const mounted = server.agents.flatMap((a) => a.mounts.map((mount) => ({ agent: a, mount })));
  return (
    <div class="page">
      <h1>Talk to an agent</h1>
      {mounted.length === 0 && <p class="problem">No agent has a mount. Add mounts: [/agents/name] to one in the configuration.</p>}
      <ul class="cards">
        {mounted.map(({ agent, mount }) => (
          <li key={mount}>
            <button type="button" onClick={() => go({ page: 'chat', open: [{ mount, id: freshID() }] })}>
              <b>{agent.name}</b>
              {agent.description && <span>{agent.description}</span>}
              <small class="dim">{agent.model} · {mount}</small>
            </button>
          </li>
        ))}
      </ul>
      {server.demo && <Own />}
    </div>
  );
}

const file = `agents:
  helper:
    mounts: [/agents/helper]
    model: openai/gpt-5
    instructions: You help people to pack for a journey. Be brief.
`;

function Own() {
  return (
    <section>
      <h2>Add your own</h2>
      <p>This agent is a demo: its model runs offline and repeats your words. Replace it in three steps.</p>
      <ol class="steps">
        <li><p>Run <code>parley init --yaml</code>, or write <code>parley.yaml</code> in the folder where <code>parley dev</code> runs:</p><Code text={file} lang="yaml" /></li>
        <li><p>Set the API key and start again:</p><Code text={'export OPENAI_API_KEY=…\nparley dev'} lang="sh" /></li>
        <li><p>Edit the file. Each save reloads it, and this page shows mistakes with their lines.</p></li>
      </ol>
    </section>
  );
}
