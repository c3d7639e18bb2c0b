/**
 * The bytes of one file on their way, in a temporary table of the session: they are compared before anything is
 * written, and loaded from there, however large the file is.
 *
 * Invariant: a session has one spool, which holds the pieces written since it was opened, as chunks of `CHUNK` bytes of
 * which the last may be shorter. Nothing of it outlives the session.
 */
import { createHash } from 'node:crypto'
import type { Session } from '../../warehouse/connect.ts'

const CHUNK = 1024 * 1024

export interface Spooled {
  /** SHA-256, 64 hex digits. */
  readonly hash: string
  readonly bytes: number
  readonly chunks: number
  /** The first bytes, up to a chunk. */
  readonly head: Buffer
  /** The last byte; undefined when there is none. */
  readonly last: number | undefined
}

/** Reads all pieces into the session's spool; fails as `pieces` does. */
export async function spool(session: Session, pieces: AsyncIterable<Buffer>): Promise<Spooled> {
  const { client } = session
  await client.query(`
    create temporary table if not exists export_spool (number int primary key, body bytea not null);
    alter table pg_temp.export_spool alter column body set storage external;
    truncate pg_temp.export_spool`)
  const hash = createHash('sha256')
  let head: Buffer | null = null
  let waiting: Buffer[] = []
  let size = 0
  let bytes = 0
  let last: number | undefined
  let chunks = 0

  async function flush(): Promise<void> {
    const all = Buffer.concat(waiting, size)
    let at = 0
    for (; at + CHUNK <= all.length; at += CHUNK) await put(all.subarray(at, at + CHUNK))
    waiting = at === all.length ? [] : [all.subarray(at)]
    size = all.length - at
  }

  async function put(body: Buffer): Promise<void> {
    chunks += 1
    head ??= Buffer.from(body)
    await client.query('insert into pg_temp.export_spool (number, body) values ($1, $2)', [chunks, body])
  }

  for await (const piece of pieces) {
    hash.update(piece)
    bytes += piece.length
    last = piece.at(-1) ?? last
    waiting.push(piece)
    size += piece.length
    if (size >= CHUNK) await flush()
  }
  if (size > 0) await put(Buffer.concat(waiting, size))
  return { hash: hash.digest('hex'), bytes, chunks, head: head ?? Buffer.alloc(0), last }
}

/** A chunk of the spool, by its number from 1. */
export async function spooledChunk({ client }: Session, number: number): Promise<Buffer> {
  const { rows } = await client.query<{ body: Buffer }>(
    'select body from pg_temp.export_spool where number = $1',
    [number],
  )
  return rows[0]!.body
}

/** Keeps the spool as a file of `intake_raw`, whose row is there. */
export async function keepSpool(
  { client }: Session,
  file: { readonly teamId: number; readonly exportId: string; readonly isLoaded: boolean },
): Promise<void> {
  await client.query(
    `insert into intake_raw.export_chunks (team_id, export_id, is_loaded, number, body)
     select $1, $2, $3, number, body from pg_temp.export_spool order by number`,
    [file.teamId, file.exportId, file.isLoaded],
  )
}
