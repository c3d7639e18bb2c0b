/**
 * A buffer for the bytes of one file: the first chunks in memory, the others in a temporary table of the session, so that
 * a file of any size can be hashed and compared before it is loaded.
 *
 * Invariant: a session has one spool, with the file that was spooled last in chunks of `CHUNK` bytes; the last chunk may
 * be shorter. The spool ends with the session.
 */
import { createHash } from 'node:crypto'
import type { Session } from '../../warehouse/connect.ts'

const CHUNK = 1024 * 1024
/** Chunks that stay in memory: most files are no larger. */
const IN_MEMORY = 8

export interface Spooled {
  /** SHA-256, 64 hex digits. */
  readonly hash: string
  readonly bytes: number
  readonly chunks: number
  /** The first chunks. */
  readonly first: readonly Buffer[]
  /** The last byte; undefined when there is none. */
  readonly last: number | undefined
}

/** Reads all pieces into the session's spool; fails as `pieces` does. Without a session, only hashes and counts them. */
export async function spool(session: Session | null, pieces: AsyncIterable<Buffer>): Promise<Spooled> {
  const hash = createHash('sha256')
  const first: Buffer[] = []
  let waiting: Buffer[] = []
  let size = 0
  let bytes = 0
  let last: number | undefined
  let chunks = 0

  async function flush(): Promise<void> {
    const all = Buffer.concat(waiting, size)
    let position = 0
    for (; position + CHUNK <= all.length; position += CHUNK)
      await put(all.subarray(position, position + CHUNK))
    waiting = position === all.length ? [] : [all.subarray(position)]
    size = all.length - position
  }

  async function put(body: Buffer): Promise<void> {
    chunks += 1
    if (chunks <= IN_MEMORY) first.push(body)
    else await putInTable(session!, chunks, body)
  }

  for await (const piece of pieces) {
    hash.update(piece)
    bytes += piece.length
    last = piece.at(-1) ?? last
    if (session === null) continue
    waiting.push(piece)
    size += piece.length
    if (size >= CHUNK) await flush()
  }
  if (size > 0) await put(Buffer.concat(waiting, size))
  return { hash: hash.digest('hex'), bytes, chunks, first, last }
}

async function putInTable({ client }: Session, number: number, body: Buffer): Promise<void> {
  if (number === IN_MEMORY + 1) {
    await client.query(`
      create temporary table if not exists export_spool (number int primary key, body bytea not null);
      alter table pg_temp.export_spool alter column body set storage external;
      truncate pg_temp.export_spool`)
  }
  await client.query('insert into pg_temp.export_spool (number, body) values ($1, $2)', [number, body])
}

/** A chunk of the file that was spooled last, by its number from 1. */
export async function spooledChunk(
  { client }: Session,
  { first }: Pick<Spooled, 'first'>,
  number: number,
): Promise<Buffer> {
  const inMemory = first[number - 1]
  if (inMemory !== undefined) return inMemory
  const { rows } = await client.query<{ body: Buffer }>(
    'select body from pg_temp.export_spool where number = $1',
    [number],
  )
  return rows[0]!.body
}

/** Stores the chunks of the spooled file in `intake_raw`; its row must exist. */
export async function storeSpool(
  { client }: Session,
  { first, chunks }: Pick<Spooled, 'first' | 'chunks'>,
  file: { readonly teamId: number; readonly exportId: string; readonly isLoaded: boolean },
): Promise<void> {
  const insert = 'insert into intake_raw.export_chunks (team_id, export_id, is_loaded, number, body)'
  const key = [file.teamId, file.exportId, file.isLoaded]
  for (const [index, body] of first.entries())
    await client.query(`${insert} values ($1, $2, $3, $4, $5)`, [...key, index + 1, body])
  if (chunks > first.length) {
    await client.query(
      `${insert} select $1, $2, $3, number, body from pg_temp.export_spool order by number`,
      key,
    )
  }
}
