// SPDX-License-Identifier: Apache-2.0

// Tests node-zookeeper-client, called with HOSTS SECONDS: counters that several sessions change at
// once, a watch that is set again and again, transactions, rights and ephemeral nodes, through any
// number of lost connections. Exits with status 0 if every check held.
'use strict';

const assert = require('assert');
const {promisify} = require('util');
const zookeeper = require('node-zookeeper-client');

const {CreateMode, Exception, Event} = zookeeper;
const ROOT = '/node-client';
const WORKERS = 3;
const SESSION_TIMEOUT_MS = 15000;
const RETRY_PAUSE_MS = 50;
const PATIENCE_MS = 30000;

const [hosts, seconds] = process.argv.slice(2);
const endMs = Date.now() + Number(seconds) * 1000;
const goesOn = () => Date.now() < endMs;
const pause = promisify(setTimeout);

let losses = 0;

class Session {
  static async open() {
    const session = new Session();
    session.client =
        zookeeper.createClient(hosts, {sessionTimeout: SESSION_TIMEOUT_MS, spinDelay: 100});
    session.client.on('expired', () => { throw new Error('a session expired'); });
    session.client.on('authenticationFailed', () => { throw new Error('a login was refused'); });
    await new Promise((resolve) => {
      session.client.once('connected', resolve);
      session.client.connect();
    });
    return session;
  }

  // Waits until the library is connected. It queues what is called before that, and sends it before its login.
  async connected() {
    if (this.client.getState() === zookeeper.State.SYNC_CONNECTED) return;
    await new Promise((resolve) => { this.client.once('connected', resolve); });
  }

  // Makes one call. Returns its result, or the code of its error.
  async once(method, ...args) {
    if (this.logsIn) await this.connected();
    return new Promise((resolve, reject) => {
      this.client[method](...args, (error, ...results) => {
        if (!error) resolve({code: 'OK', results});
        else if (error instanceof Exception) resolve({code: error.name, results: []});
        else reject(error);
      });
    });
  }

  // Makes a call that may be repeated when its answer was lost; `lost`: whether that happened.
  async call(method, ...args) {
    for (let lost = false;; lost = true) {
      const {code, results} = await this.once(method, ...args);
      if (code !== 'CONNECTION_LOSS') return {code, results, lost};
      ++losses;
      assert(Date.now() < endMs + PATIENCE_MS, `no answer to ${method} for too long`);
      await pause(RETRY_PAUSE_MS);
    }
  }

  async expect(wanted, method, ...args) {
    const {code, results} = await this.call(method, ...args);
    assert.strictEqual(code, wanted, `${method} ${args[0]}`);
    return results;
  }

  async ensure(path, data) {
    const {code} = await this.call('create', path, data);
    assert(code === 'OK' || code === 'NODE_EXISTS', `create ${path}: ${code}`);
  }

  async close() {
    await new Promise((resolve) => {
      this.client.once('disconnected', resolve);
      this.client.close();
    });
  }
}

async function withSession(work) {
  const session = await Session.open();
  const result = await work(session);
  await session.close();
  return result;
}

async function clear(session, path) {
  const {code, results} = await session.call('getChildren', path);
  if (code === 'NO_NODE') return;
  for (const name of results[0] || []) await clear(session, `${path}/${name}`);
  await session.call('remove', path, -1);
}

// Increments a counter; each change names the version that it is based on, so that none may be
// lost. Returns the number of increments.
async function increments(session) {
  let done = 0;
  while (goesOn()) {
    const [data, stat] = await session.expect('OK', 'getData', `${ROOT}/counter`);
    const next = Buffer.from(String(Number(data.toString()) + 1));
    const {code} = await session.call('setData', `${ROOT}/counter`, next, stat.version);
    assert(code === 'OK' || code === 'BAD_VERSION', `setData: ${code}`);
    if (code === 'OK') ++done;
  }
  return done;
}

// Follows the counter by watches until `isLast` holds; checks that it never goes back.
async function follow(session, isLast) {
  let events = 0, before = -1;
  while (true) {
    let fire;
    const fired = new Promise((resolve) => { fire = resolve; });
    const watcher = (event) => {
      assert.strictEqual(event.getType(), Event.NODE_DATA_CHANGED);
      assert.strictEqual(event.getPath(), `${ROOT}/counter`);
      fire();
    };
    const [data] = await session.expect('OK', 'getData', `${ROOT}/counter`, watcher);
    const value = Number(data.toString());
    assert(value >= before, `the counter went back from ${before} to ${value}`);
    before = value;
    if (isLast(value)) return events;
    await fired;
    ++events;
  }
}

async function transactions(session) {
  let done = 0;
  do {
    const path = `${ROOT}/pair-`;
    const commit = (last) => new Promise((resolve, reject) => {
      session.client.transaction()
          .create(path + 'a', Buffer.from('a'))
          .create(path + 'b', Buffer.from('b'))
          .setData(path + 'a', Buffer.from('c'), 0)
          .check(path + 'b', last)
          .commit((error) => {
            if (!error || error instanceof Exception) resolve(error ? error.name : 'OK');
            else reject(error);
          });
    });
    for (const [version, wanted] of [[1, 'BAD_VERSION'], [0, 'OK']]) {
      let code, lost = false;
      while ((code = await commit(version)) === 'CONNECTION_LOSS') {
        ++losses;
        lost = true;
        await pause(RETRY_PAUSE_MS);
      }
      assert(code === wanted || (lost && code === 'NODE_EXISTS'), `transaction: ${code}`);
      const [stat] = (await session.call('exists', path + 'a')).results;
      assert.strictEqual(Boolean(stat), wanted === 'OK', 'half of a transaction');
    }
    for (const name of ['a', 'b']) await session.call('remove', path + name, -1);
    ++done;
  } while (goesOn());
  return done;
}

async function rights() {
  const path = `${ROOT}/secret`;
  await withSession(async (owner) => {
    owner.client.addAuthInfo('digest', Buffer.from('alice:secret'));
    owner.logsIn = true;
    const mine = [new zookeeper.ACL(zookeeper.Permission.ALL, new zookeeper.Id('auth', ''))];
    const {code} = await owner.call('create', path, Buffer.from('x'), mine);
    assert(code === 'OK' || code === 'NODE_EXISTS', `create ${path}: ${code}`);
    do {
      await withSession(async (stranger) => {
        await stranger.expect('NO_AUTH', 'getData', path);
        await stranger.expect('NO_AUTH', 'setData', path, Buffer.from('y'), -1);
      });
      // This holds after a reconnect, too, when the client has to log in again.
      const [data] = await owner.expect('OK', 'getData', path);
      assert.strictEqual(data.toString(), 'x');
      await pause(RETRY_PAUSE_MS);
    } while (goesOn());
    await owner.expect('OK', 'setACL', path, zookeeper.ACL.OPEN_ACL_UNSAFE, -1);
  });
}

async function ephemerals(watcher) {
  for (let turn = 0; turn === 0 || goesOn(); ++turn) {
    const path = `${ROOT}/ephemeral-${turn}`;
    let fire;
    const gone = new Promise((resolve) => { fire = resolve; });
    // The creation may be an event, too: this client has no sync, so the other session's server may
    // not have applied the creation yet.
    const onEvent = (event) => { if (event.getType() === Event.NODE_DELETED) fire(); };
    await withSession(async (session) => {
      const {code} = await session.call('create', path, null, CreateMode.EPHEMERAL);
      assert(code === 'OK' || code === 'NODE_EXISTS', `create ${path}: ${code}`);
      let stat;
      do {
        [stat] = (await watcher.call('exists', path, onEvent)).results;
      } while (!stat);
      assert(stat.ephemeralOwner.equals(session.client.getSessionId()), 'another owner');
    });
    await gone;
    await watcher.expect('NO_NODE', 'getData', path);
  }
}

async function main() {
  await withSession(async (session) => {
    await clear(session, ROOT);
    await session.ensure(ROOT, null);
    await session.ensure(`${ROOT}/counter`, Buffer.from('0'));
  });
  let isOver = false, last = 0;
  const followers = [0, 1].map(
      () => withSession((session) => follow(session, (value) => isOver && value === last)));
  const others = [withSession(transactions), withSession(ephemerals), rights()];
  const counts = await Promise.all(
      Array.from({length: WORKERS}, () => withSession(increments)));
  const done = counts.reduce((sum, count) => sum + count, 0);
  const results = await Promise.all(others);
  await withSession(async (session) => {
    const [data] = await session.expect('OK', 'getData', `${ROOT}/counter`);
    last = Number(data.toString()) + 1;
    assert(done < last && last <= done + 1 + losses, `${last - 1} after ${done} increments`);
    isOver = true;
    await session.call('setData', `${ROOT}/counter`, Buffer.from(String(last)), -1);
  });
  const events = await Promise.all(followers);
  console.log(`${done} increments, ${events} events, ${results[0]} transactions, ${losses} losses`);
}

process.on('unhandledRejection', (error) => { throw error; });
main().then(() => process.exit(0));
