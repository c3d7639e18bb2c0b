/** The floors of storing events: a bare HTTP server, and one-row inserts by as many clients. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

export interface BareServer extends AsyncDisposable {
  readonly url: string
}

/** Reads each body and answers 200. */
export async function openBareServer(): Promise<BareServer> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part) => parts.push(part))
    request.on('end', () => {
      Buffer.concat(parts)
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 19 })
      response.end('{"status":"stored"}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Into the same table and indexes that the ingester fills; with a body of a kilobyte. */
const INSERT = `insert into intake_raw.inbox
  (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
  select 1, id, sha256(id::bytea), (now() at time zone 'UTC')::date, now(), 'updated', 'patient', id,
    repeat('x', 1024)::bytea
  from (select gen_random_uuid()::text as id) as given;`.replaceAll(/\s+/g, ' ')

export interface Inserts {
  readonly rate: number
  readonly by: string
}

/** One-row inserts per second by `clients` clients: with pgbench if installed, else with as many connections of pg. */
export async function insertRate(url: string, clients: number, seconds: number): Promise<Inserts> {
  const folder = mkdtempSync(join(tmpdir(), 'intake-pgbench-'))
  try {
    const script = join(folder, 'insert.sql')
    writeFileSync(script, `${INSERT}\n`)
    const { hostname, port, username, password, pathname } = new URL(url)
    const words = ['-n', '-c', String(clients), '-T', String(seconds), '-f', script]
    const place = ['-h', hostname, '-p', port, '-U', username, pathname.slice(1)]
    const env = { ...process.env, PGPASSWORD: decodeURIComponent(password) }
    const { stdout } = await promisify(execFile)('pgbench', [...words, ...place], { env })
    const rate = Number(/tps = ([\d.]+) \(without/.exec(stdout)?.[1])
    if (!(rate > 0)) throw new Error('pgbench printed no rate')
    return { rate, by: `pgbench, ${clients} clients` }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return {
      rate: await ownInsertRate(url, clients, seconds),
      by: `${clients} connections of pg (no pgbench here)`,
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function ownInsertRate(url: string, clients: number, seconds: number): Promise<number> {
  const opened = await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      return client
    }),
  )
  const until = performance.now() + seconds * 1000
  let count = 0
  await Promise.all(
    opened.map(async (client) => {
      for (; performance.now() < until; count += 1) await client.query(INSERT)
    }),
  )
  await Promise.all(opened.map((client) => client.end()))
  return count / seconds
}
