/** One export's file: loaded when it differs, left alone when it does not, and a dead letter when it is refused or malformed. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { readFile } from '../../../src/extract/reading/read-export-file.ts'
import type { Source } from '../../../src/extract/source.ts'
import { storedExports } from '../../../src/load/exports/export-file.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
  await rig.hold('exports', [{ id: 'e', name: 'E' }], ago(60))
})
afterEach(() => rig[Symbol.asyncDispose]())

const clock = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 2), signal),
}
const HEADER = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Mood\r\n'
const fileOf = (mood: string) => `${HEADER}c1,A,B,a@example.com,,,false,${mood}\r\n`
const MALFORMED = `${HEADER}"c1,A\r\n`

function serve(text: string, status = 200): void {
  rig.service.interfere = (_, response) => {
    if (status === 200) {
      response
        .writeHead(200, { 'content-type': 'text/csv', 'content-length': Buffer.byteLength(text) })
        .end(text)
    } else json(response, { detail: 'no' }, status)
    return true
  }
}

/** One run; with `listedNow` the scan of the list has just loaded the entry. */
async function read({ dry = false, runId = '1', over = {} as Partial<Source>, counted = 3 } = {}) {
  const source = await rig.source('exports', { clock, runId, ...over })
  // Other files of the run were counted before.
  Object.assign(source.tally, { changed: 20, unchanged: counted, deadLetters: 30, problems: 40 })
  const stored = (await storedExports(rig.session.db, rig.teamId, ['e'])).get('e')
  await readFile(source, rig.session, 'e', stored, dry)
  const { changed, unchanged, deadLetters, problems } = source.tally
  const own = { changed: changed - 20, deadLetters: deadLetters - 30, problems: problems - 40 }
  return { ...own, unchanged, source }
}
const moods = async () =>
  (await rig.rows<{ value: string }>('select value from intake.export_cells order by row_number')).map(
    ({ value }) => value,
  )
const waitingDeadLetters = () =>
  rig.rows('select record_id as id, reason, status, seen::int from intake_ops.dead_letters order by id')
const files = async () =>
  (
    await rig.rows<{ loaded: boolean }>(
      'select is_loaded as loaded from intake_raw.export_files order by 1 desc',
    )
  ).map(({ loaded }) => loaded)

test('a file is loaded once; the same again writes nothing, another replaces it', async () => {
  serve(fileOf('good'))
  expect(await read()).toMatchObject({ changed: 1, unchanged: 2, deadLetters: 0 })
  const version = () => rig.rows('select xmin::text from intake.export_cells')
  const before = await version()
  expect(await read({ runId: '2' })).toMatchObject({ changed: 0, unchanged: 3 })
  expect(await version()).toEqual(before)
  serve(fileOf('bad'))
  // Its entry was not among those that this run counted.
  expect(await read({ runId: '3', counted: 0 })).toMatchObject({ changed: 1, unchanged: 0 })
  expect(await moods()).toEqual(['bad'])
})

test('problems of a file are counted with those of the files before it', async () => {
  serve(fileOf('good').replace(',,,false', ',never,soon,perhaps'))
  expect(await read()).toMatchObject({ changed: 1, problems: 3 })
  serve(fileOf('good').replace(',,,false', ',never,,false'))
  expect(await read({ runId: '2' })).toMatchObject({ changed: 1, problems: 1 })
})

test('an export whose entry this run has loaded is counted with its entry', async () => {
  await rig.rows(`update intake.exports set _origin = 'run:5 page:1'`)
  serve(fileOf('good'))
  expect(await read({ runId: '5' })).toMatchObject({ changed: 0, unchanged: 3 })
  expect(await moods()).toEqual(['good'])
  // The run that begins with the same digit is another.
  await rig.rows(`update intake.exports set _origin = 'run:55 page:1'`)
  serve(fileOf('bad'))
  expect(await read({ runId: '5' })).toMatchObject({ changed: 1, unchanged: 2 })
})

test('the same bytes in another zone are loaded again', async () => {
  serve(fileOf('good'))
  await read()
  expect(await read({ over: { timezone: 'Asia/Tokyo' } })).toMatchObject({ changed: 1 })
  expect(await read({ over: { timezone: 'Asia/Tokyo' } })).toMatchObject({ changed: 0 })
})

test('a dry run counts what would change, and writes nothing', async () => {
  serve(fileOf('good'))
  expect(await read({ dry: true })).toMatchObject({ changed: 1, unchanged: 2 })
  expect([await moods(), await files()]).toEqual([[], []])
})

describe('a malformed file', () => {
  test('is a dead letter; the rows of the one before stay', async () => {
    serve(fileOf('good'))
    await read()
    serve(MALFORMED)
    expect(await read()).toMatchObject({ changed: 0, unchanged: 3, deadLetters: 1 })
    expect([await moods(), await files()]).toEqual([['good'], [true, false]])
    expect(await read()).toMatchObject({ deadLetters: 1 })
    expect(await waitingDeadLetters()).toMatchObject([
      { id: 'e', seen: 2, reason: expect.stringContaining('malformed') },
    ])
  })

  test('is forgotten when the loaded one is served again, though not by a dry run', async () => {
    serve(fileOf('good'))
    await read()
    serve(MALFORMED)
    await read()
    serve(fileOf('good'))
    await read({ dry: true })
    expect(await files()).toEqual([true, false])
    expect(await read()).toMatchObject({ changed: 0 })
    expect([await moods(), await files()]).toEqual([['good'], [true]])
  })
})

describe('a file that is not served', () => {
  test.each([
    [404, 'is in the list, but its file is not found (404)'],
    [422, 'the service does not give the file (422)'],
  ])('with %i is a dead letter, and the rows before stay', async (status, reason) => {
    serve(fileOf('good'))
    await read()
    serve('', status)
    expect(await read()).toMatchObject({ changed: 0, deadLetters: 1 })
    expect(await waitingDeadLetters()).toMatchObject([{ id: 'e', reason }])
    expect(await moods()).toEqual(['good'])
  })

  test('because the service fails is left to the next run', async () => {
    serve('', 500)
    const { source, deadLetters } = await read()
    expect(deadLetters).toBe(0)
    expect([...source.failedFetches.later.keys()]).toEqual(['e'])
    expect([await waitingDeadLetters(), await files()]).toEqual([[], []])
  })

  test('because the credentials are refused stops the stream', async () => {
    serve('', 403)
    await expect(read()).rejects.toMatchObject({ status: 403 })
    expect(await waitingDeadLetters()).toEqual([])
  })
})

test('a file that comes ends the failures in a row: ten of these would stop the stream', async () => {
  serve(fileOf('good'))
  const failedFetches = { inRow: 9, later: new Map() }
  await read({ over: { failedFetches } })
  expect(failedFetches.inRow).toBe(0)
})

test('a dry run needs no place in the warehouse for a file, however large it is', async () => {
  serve(fileOf('x'.repeat(12_000_000)))
  const source = await rig.source('exports', { clock })
  const stored = (await storedExports(rig.session.db, rig.teamId, ['e'])).get('e')
  await readFile(source, 'no session' as never, 'e', stored, true)
  expect(source.tally.changed).toBe(1)
})

test.each([
  ['54000', 1],
  ['22021', 1],
  ['53100', 0],
  // A constraint of ours: no file is to blame.
  ['23514', 0],
])(
  'a file that the warehouse refuses with %s becomes a dead letter only if the file is to blame',
  async (code, dead) => {
    serve(fileOf('good'))
    await rig.rows(`
    create function refuse() returns trigger language plpgsql as $$ begin raise exception using errcode = '${code}'; end $$;
    create trigger refuse before insert on intake.export_cells for each row execute function refuse()`)
    if (dead === 0) await expect(read()).rejects.toMatchObject({ code })
    else expect(await read()).toMatchObject({ changed: 0, unchanged: 3, deadLetters: 1, problems: 0 })
    const reason = `the warehouse refused the file (SQLSTATE ${code})`
    expect(await waitingDeadLetters()).toMatchObject(
      dead === 0 ? [] : [{ id: 'e', reason, status: 'waiting' }],
    )
    expect(await moods()).toEqual([])
  },
)

test('a worker that has lost its slice forgets no file, which another may just have found', async () => {
  serve(fileOf('good'))
  await read()
  serve(MALFORMED)
  await read()
  serve(fileOf('good'))
  const source = await rig.source('exports', { clock, runId: '2' })
  await rig.source('exports', { clock, runId: '3' })
  const stored = (await storedExports(rig.session.db, rig.teamId, ['e'])).get('e')
  await expect(readFile(source, rig.session, 'e', stored, false)).rejects.toMatchObject({
    code: 'slice_lost',
  })
  expect(await files()).toEqual([true, false])
})
