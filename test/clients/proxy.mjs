import { createServer, connect } from 'node:net';

/**
 * A TCP proxy in front of a mount that breaks connections: all at once, or one
 * at a position of a response.
 */
export class Proxy {
  static async before(mount) {
    const proxy = new Proxy(new URL(mount));
    await new Promise((resolve) => proxy.server.listen(0, '127.0.0.1', resolve));
    const url = new URL(mount);
    url.port = proxy.server.address().port;
    proxy.mount = url.toString();
    return proxy;
  }

  constructor(target) {
    this.target = target;
    this.sockets = new Set();
    /** The number of connections so far. */
    this.connections = 0;
    /**
     * The position at which to break the first connection: so many bytes after the
     * first occurrence of a text. It is undefined again afterwards.
     */
    this.cut = undefined;
    /** While true, connections are refused. */
    this.down = false;
    this.closed = false;
    this.expected = [];
    this.server = createServer((client) => this.#accept(client));
    /**
     * The fetch of a client of the proxy. The client retries forever; this ends it
     * with the test.
     */
    this.fetch = async (input, init) => (this.closed ? new Response(null, { status: 410 }) : fetch(input, init));
  }

  #accept(client) {
    this.connections++;
    if (this.down) {
      client.destroy();
      return;
    }
    const server = connect(Number(this.target.port), this.target.hostname);
    const end = () => {
      client.destroy();
      server.destroy();
      this.sockets.delete(client);
    };
    this.sockets.add(client);
    for (const socket of [client, server]) {
      socket.on('error', end);
      socket.on('close', end);
    }
    client.pipe(server);
    client.on('data', (bytes) => {
      for (const { text, seen } of this.expected) {
        if (bytes.includes(text)) seen();
      }
    });
    let sent = '';
    server.on('data', (bytes) => {
      const before = sent.length;
      sent += bytes.toString('latin1');
      const found = this.cut ? sent.indexOf(this.cut.after) : -1;
      const place = found < 0 ? Infinity : found + this.cut.bytes;
      if (place > sent.length) {
        client.write(bytes);
        return;
      }
      this.cut = undefined;
      server.removeAllListeners('data');
      // Written data is sent before the connection closes.
      client.end(bytes.subarray(0, Math.max(place - before, 0)), end);
    });
  }

  /** Resolves once a request with this text is forwarded. */
  request(text) {
    return new Promise((seen) => this.expected.push({ text, seen }));
  }

  /** Breaks every open connection. */
  drop() {
    for (const socket of [...this.sockets]) socket.destroy();
  }

  close() {
    this.closed = true;
    this.drop();
    return new Promise((resolve) => this.server.close(resolve));
  }
}
