/** A connection that breaks during a load: the first error is reported, not that nothing could be rolled back then. */
import { Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { openFileLines } from '../../src/load/exports/file-lines.ts'
import { openFileProblems } from '../../src/load/exports/file-problems.ts'
import { copyRecords, loadFile, rejectFile, useZone } from '../../src/load/exports/load-file.ts'
import { loadBatch } from '../../src/load/merge/load.ts'
import { untakenSlice } from '../../src/load/slice.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import { patients } from '../../src/streams/patients.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { at, recordEnvelope } from '../support/envelopes.ts'
import { scripted } from '../support/scripted.ts'

const first = Object.assign(new Error('the first'), { code: 'ECONNRESET' })

/** A session whose statements fail once a transaction has begun; `asked` are those that it was given. */
function breaking() {
  const asked: string[] = []
  let isBroken = false
  const ask = async (statement: string) => {
    asked.push(statement)
    if (statement === 'rollback') throw new Error('not queryable')
    if (isBroken) throw first
    isBroken = statement === 'begin'
    return []
  }
  const client = { query: ask }
  return { asked, session: { client, db: scripted(ask) } as unknown as Session }
}

const taken = untakenSlice({ teamId: 1, stream: 'patients', slice: '' }, '7')
const lines = linesOf(patients, [
  recordEnvelope({ id: 'a' }, { teamId: 1, stream: 'patients', observedAt: at(0) }),
])
const batch = { stream: patients, taken, lines, deadLetters: [] }
const file = {
  ...{ exportId: 'e', isJsonString: false, apiVersion: 'v2.1', timezone: 'UTC', observedAt: at(0) },
  ...{ origin: 'run:7 file', hash: 'ab', bytes: 1, chunks: 1, first: [Buffer.from('x')] },
}

test.each<[string, (session: Session) => Promise<unknown>]>([
  ['a batch that is copied', (session) => loadBatch(session, batch, 'straight')],
  ['a batch that is merged', (session) => loadBatch(session, batch, 'merge')],
  ['a file', (session) => loadFile(session, taken, file)],
  ['a file that is rejected', (session) => rejectFile(session, taken, file, 'broken')],
])('during the load of %s', async (_, load) => {
  const { asked, session } = breaking()
  await expect(load(session)).rejects.toBe(first)
  const from = asked.indexOf('begin')
  expect(asked.filter((statement) => statement === 'begin')).toHaveLength(1)
  expect([asked.length - from, asked.at(-1)]).toEqual([3, 'rollback'])
})

test('a time zone that Postgres does not know is named with the setting; any other error is none of the zone', async () => {
  const failing = (code: string) => {
    const error = Object.assign(new Error('no'), { code })
    return { error, client: { query: () => Promise.reject(error) } as unknown as Session['client'] }
  }
  await expect(useZone(failing('22023').client, 'Nowhere/Town')).rejects.toMatchObject({
    ...{ message: 'the warehouse does not know the time zone Nowhere/Town', code: 'unknown_zone' },
    ...{ verdict: 'stop', hint: 'set INTAKE_TIMEZONE to a name of pg_timezone_names' },
  })
  const { client, error } = failing('57P01')
  await expect(useZone(client, 'UTC')).rejects.toBe(error)
})

/** Copies a file of these chunks; a copy that was begun fails or ends so many turns of the event loop later. */
function copying(chunks: readonly string[], fault: Error | null, turns = 5) {
  const ended: string[] = []
  const copied = async (text: string, done: (error?: Error | null) => void) => {
    for (let turn = 0; turn < turns; turn++) await setImmediate()
    ended.push(text)
    done(fault)
  }
  const query = () => new Writable({ write: (piece: Buffer, _, done) => void copied(String(piece), done) })
  const session = { client: { query } } as unknown as Session
  const lines = openFileLines({ teamId: 1, exportId: 'e', fromJson: false }, openFileProblems(1))
  const chunk = async (number: number) => Buffer.from(chunks[number - 1]!)
  const stored = { isJsonString: false, chunks: chunks.length, chunk }
  return { ended, work: copyRecords(session, stored, lines, { rows: 'copy rows', cells: 'copy cells' }) }
}
const ROW = `${'x,'.repeat(6)}f`
/** Parsed in several turns of the event loop. */
const LONG = `${ROW}\n`.repeat(10_000)

test('a copy that fails while the next part of its file is parsed fails the load, and nothing else', async () => {
  const { work } = copying([`Client ID\n${ROW}\n`, LONG], first, 1)
  await expect(work).rejects.toBe(first)
})

test('a file that turns out to be malformed is so once its copy has ended; a connection that broke meanwhile comes first', async () => {
  const chunks = [`Client ID\n${ROW}\n`, `"x"y\n`]
  const malformed = copying(chunks, null)
  await expect(malformed.work).rejects.toMatchObject({ code: 'malformed_file' })
  expect(malformed.ended).toEqual(['1\te\t1\tx\tx\tx\tx\t\\N\t\\N\t\\N\n'])
  await expect(copying(chunks, first).work).rejects.toBe(first)
})

test('bodies of dead letters are removed a thousand at a time, and a warehouse that is away meanwhile is an error of its own', async () => {
  const remove = (...removed: readonly (number | Error)[]) => {
    const left = [...removed]
    const db = scripted(() => {
      const next = left.shift()!
      if (next instanceof Error) throw next
      return next
    })
    const removing = removeSettledBodies(db, { days: 30, now: new Date('2026-03-31T00:00:00Z') })
    return removing.finally(() => expect(left).toEqual([]))
  }
  expect(await remove(1_000, 1_000, 3)).toBe(2_003)
  expect(await remove(1_000, 0)).toBe(1_000)
  expect(await remove(999)).toBe(999)
  await expect(remove(1_000, first)).rejects.toMatchObject({
    ...{ name: 'IntakeError', code: 'warehouse_unreachable', verdict: 'retry' },
  })
})
