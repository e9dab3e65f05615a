// SPDX-License-Identifier: Apache-2.0

// A session of Quorate over gRPC, in one file to copy and to change: it reconnects to another server by itself, sends
// again what has no answer, so that each write is made exactly once, continues its watches, and holds locks.
'use strict';

const crypto = require('crypto');
const { EventEmitter } = require('events');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTO = process.env.QUORATE_PROTO || path.join(__dirname, '../../rpc/proto');
const RETRY_MS = 100;
// A connection to a server that stands still breaks after six seconds. A lost session would take longer.
const CHANNEL = { 'grpc.keepalive_time_ms': 3000, 'grpc.keepalive_timeout_ms': 3000 };

const api = grpc.loadPackageDefinition(loader.loadSync(
  ['types', 'session', 'lock'].map((name) => path.join(PROTO, 'quorate/v1', `${name}.proto`)),
  // 64-bit numbers are strings: those of JavaScript are exact only up to 2^53.
  { includeDirs: [PROTO], keepCase: false, longs: String, enums: String, defaults: true, oneofs: true })).quorate.v1;

const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const newer = (a, b) => (BigInt(a) > BigInt(b) ? a : b);

// A request failed; `code` is the ErrorCode, without its prefix.
class Failed extends Error {
  constructor(code) {
    super(code.replace('ERROR_CODE_', ''));
    this.code = this.message;
  }
}

// The session has ended: its ephemeral znodes and its locks are gone.
class SessionEnded extends Error {}

// Emits 'opened' for each stream, and 'ended' when the session has ended.
class Session extends EventEmitter {
  // `servers` are gRPC addresses.
  constructor(servers, timeoutSeconds = 10) {
    super();
    this.setMaxListeners(0);
    this.servers = servers;
    this.next = 0;
    this.timeoutSeconds = timeoutSeconds;
    this.password = crypto.randomBytes(16);
    this.id = '0';
    this.streams = 0; // that were opened
    this.ids = 0;
    this.sequence = 0; // of the last write
    this.acknowledged = 0; // the answers of all writes up to this one have arrived
    this.zxid = '0'; // everything up to it was received
    this.calls = new Map(); // requests without an answer, in the order of sending
    this.watches = new Map();
    this.continued = new Map(); // the watches that were sent again, by the ids of their requests
    this.stream = null; // set while it is open
    this.isOver = false;
    this.contact = performance.now(); // the newest message that a server has answered was sent then
    this.pings = new Map(); // when requests that only keep the session alive were sent, by id
    this.alive = setInterval(() => this.ping(), (timeoutSeconds * 1000) / 3);
    this.connect();
  }

  // Applies the operations, all or none, exactly once. Resolves to their results.
  async write(...operations) {
    this.sequence += 1;
    return (await this.call({ write: { sequence: this.sequence, operations } })).write.results;
  }

  // Resolves to the data and the stat of a znode.
  async get(znode, linearizable = false) {
    return (await this.call({ get: { path: znode, linearizable } })).get;
  }

  // Calls onEvent(event) for each event, once and in order, until the session ends; onEvent(null) if events may be
  // missing, because no server was reached for too long: read again.
  async watch(znode, onEvent, scope = 'WATCH_SCOPE_NODE') {
    this.ids += 1;
    const watchId = String(this.ids);
    this.watches.set(watchId, { path: znode, scope, onEvent });
    await this.call({ watch: { watchId, path: znode, scope } });
  }

  // Ends the session, and deletes its ephemeral znodes.
  async close() {
    if (!this.isOver) await this.call({ close: {} });
    this.end();
  }

  call(request) {
    if (this.isOver) return Promise.reject(new SessionEnded());
    this.ids += 1;
    const numbered = { id: String(this.ids), ...request };
    return new Promise((resolve, reject) => {
      this.calls.set(numbered.id, { request: numbered, resolve, reject });
      this.transmit(numbered);
    });
  }

  transmit(...requests) {
    if (this.stream) this.stream.write({ requests, acknowledgedSequence: this.acknowledged });
  }

  // Every message keeps the session alive. The answer of this one shows that it arrived.
  ping() {
    if (!this.stream) return;
    this.ids += 1;
    this.pings.set(String(this.ids), performance.now());
    this.transmit({ id: String(this.ids), get: { path: '/' } });
  }

  // Returns whether the session may have ended, by this program's clock.
  isOutOfTouch() {
    return performance.now() - this.contact > this.timeoutSeconds * 1000;
  }

  connect() {
    this.connected = performance.now();
    const server = this.servers[this.next % this.servers.length];
    this.next += 1;
    const client = new api.SessionService(server, grpc.credentials.createInsecure(), CHANNEL);
    const stream = client.session();
    stream.on('data', (response) => this.receive(response, stream, server));
    stream.on('error', (error) => {
      // Any other end says nothing about the session: another server continues it.
      if (error.code === grpc.status.UNAUTHENTICATED) this.end();
    });
    stream.on('status', () => {
      client.close();
      if (this.stream === stream) this.stream = null;
      if (!this.isOver) setTimeout(() => this.connect(), RETRY_MS);
    });
    stream.write({
      open: {
        sessionId: this.id, password: this.password, timeout: { seconds: this.timeoutSeconds }, lastZxid: this.zxid,
      },
    });
  }

  receive(response, stream, server) {
    if (response.opened) {
      this.id = response.opened.sessionId;
      this.timeoutSeconds = Number(response.opened.timeout.seconds) + response.opened.timeout.nanos / 1e9;
      this.contact = Math.max(this.contact, this.connected);
      this.pings.clear();
      this.streams += 1;
      this.stream = stream;
      this.server = server;
      this.transmitAgain();
      this.emit('opened');
    }
    for (const item of response.items) {
      if (item.event) {
        for (const watchId of item.event.watchIds) this.watches.get(watchId).onEvent(item.event.event);
      } else {
        this.take(item.response);
      }
    }
    this.zxid = newer(this.zxid, response.zxid);
  }

  take(answer) {
    const call = this.calls.get(answer.id);
    if (this.pings.has(answer.id)) {
      this.contact = Math.max(this.contact, this.pings.get(answer.id));
      this.pings.delete(answer.id);
      return;
    }
    const isError = answer.error !== 'ERROR_CODE_UNSPECIFIED';
    if (!call) {
      const watchId = this.continued.get(answer.id);
      if (!watchId || !isError) return;
      this.continueWatch(watchId, '0');
      this.watches.get(watchId).onEvent(null);
      return;
    }
    this.calls.delete(answer.id);
    if (call.request.write) this.acknowledged = Math.max(this.acknowledged, call.request.write.sequence);
    if (isError) call.reject(new Failed(answer.error));
    else call.resolve(answer);
  }

  // On a new stream: the watches, from what was received, then all that has no answer, in the order of sending.
  transmitAgain() {
    const calls = [...this.calls.values()];
    const waiting = new Set(calls.filter((call) => call.request.watch).map((call) => call.request.watch.watchId));
    this.continued.clear();
    for (const watchId of this.watches.keys()) {
      if (!waiting.has(watchId)) this.continueWatch(watchId, this.zxid);
    }
    for (const call of calls) this.transmit(call.request);
  }

  continueWatch(watchId, afterZxid) {
    const watch = this.watches.get(watchId);
    this.ids += 1;
    this.continued.set(String(this.ids), watchId);
    this.transmit({ id: String(this.ids), watch: { watchId, path: watch.path, scope: watch.scope, afterZxid } });
  }

  end() {
    if (this.isOver) return;
    this.isOver = true;
    clearInterval(this.alive);
    if (this.stream) this.stream.end();
    for (const call of this.calls.values()) call.reject(new SessionEnded());
    this.calls.clear();
    this.emit('ended');
  }

  // Resolves when the session is attached to a server.
  async attached() {
    while (!this.stream) {
      if (this.isOver) throw new SessionEnded();
      await wait(RETRY_MS / 2);
    }
  }

  // Returns a Lock. `name`: its id in the queue; by default a new one.
  lock(queue, name = crypto.randomUUID()) {
    return new Lock(this, queue, name);
  }
}

// A lock of a session. A resource outside of the cluster has to refuse a token smaller than one that it has seen. Emits
// 'waiting' with the number of contenders before it, 'held' with the token, and 'lost': at the latest one session timeout
// after the last contact with a server, because another contender may hold the lock then.
class Lock extends EventEmitter {
  constructor(session, queue, name) {
    super();
    this.session = session;
    this.queue = queue;
    this.name = name;
    this.use = null; // the current use, from acquire() to release()
  }

  contender() {
    return { path: this.queue, id: this.name, sessionId: this.session.id, sessionPassword: this.session.password };
  }

  // Resolves to the token when the lock is held.
  async acquire() {
    await this.stop();
    return new Promise((resolve, reject) => {
      this.use = { token: '0', isOver: false, stream: null, clock: null, resolve, reject };
      this.use.followed = this.follow(this.use);
    });
  }

  async follow(use) {
    while (!use.isOver) {
      try {
        await this.session.attached();
        if (!use.isOver) await this.followOnce(use);
      } catch (error) {
        const again = [grpc.status.UNAVAILABLE, grpc.status.ABORTED, grpc.status.CANCELLED];
        if (!again.includes(error.code)) this.lose(use);
        else await wait(RETRY_MS);
      }
    }
  }

  // With the same id: after a broken stream, the contender finds its place again. With the token, once it has held the
  // lock: if it was lost in between, it must not come into the queue a second time.
  followOnce(use) {
    const client = new api.LockService(this.session.server, grpc.credentials.createInsecure(), CHANNEL);
    return new Promise((resolve, reject) => {
      use.stream = client.acquire({ contender: this.contender(), onlyToken: use.token });
      use.stream.on('data', (response) => this.take(use, response));
      use.stream.on('error', reject);
      use.stream.on('end', resolve);
    }).finally(() => client.close());
  }

  take(use, response) {
    if (use.isOver) return;
    if (response.held && use.token === '0') {
      use.token = response.held.token;
      use.clock = setInterval(() => { if (this.session.isOutOfTouch()) this.lose(use); }, RETRY_MS);
      this.emit('held', use.token);
      use.resolve(use.token);
    } else if (response.waiting && use.token === '0') {
      this.emit('waiting', response.waiting.ahead);
    } else if (!response.held || response.held.token !== use.token) {
      this.lose(use); // or another contender got the lock in between
    }
  }

  lose(use) {
    if (use.isOver) return;
    this.end(use);
    this.emit('lost');
  }

  end(use) {
    use.isOver = true;
    clearInterval(use.clock);
    if (use.stream) use.stream.cancel();
    use.reject(new SessionEnded()); // has no effect once the lock was held
  }

  // When this resolves, no call of Acquire is made any more.
  async stop() {
    const { use } = this;
    if (!use) return;
    if (!use.isOver) this.end(use);
    await use.followed;
  }

  async release() {
    await this.stop();
    for (;;) {
      await this.session.attached();
      const client = new api.LockService(this.session.server, grpc.credentials.createInsecure(), CHANNEL);
      try {
        await new Promise((resolve, reject) => {
          client.release({ contender: this.contender() }, (error) => (error ? reject(error) : resolve()));
        });
        return;
      } catch (error) {
        if (![grpc.status.UNAVAILABLE, grpc.status.ABORTED].includes(error.code)) throw error;
        await wait(RETRY_MS);
      } finally {
        client.close();
      }
    }
  }
}

module.exports = { Session, Lock, Failed, SessionEnded };
