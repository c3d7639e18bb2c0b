/** Exports that cannot be read: each becomes a dead letter with its reason, and the others are loaded. */
import { pino } from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import {
  type FileService,
  HEADER,
  idIn,
  query,
  rowVersions,
  runExports,
  shownTables,
  startFileService,
} from './run.ts'

let database: TestDatabase
let service: FileService

beforeEach(async () => {
  database = await createTestDatabase()
  service = await startFileService()
  for (const id of ['a', 'bad', 'z']) service.put(id, good(id))
  return async () => {
    await service[Symbol.asyncDispose]()
    await database.drop()
  }
})

const good = (word: string) => `${HEADER},Q\np1,Ann,,,,,,${word}\n`
const malformed = `${HEADER},Q\np1,Ann,,,,,,Jane "Doe"\n`
const run = (options = {}) => runExports(service.url, database.url, options)
const rows = (text: string) => query(database.url, text)
const cells = async () =>
  (await rows('select value from intake.export_cells order by 1')).map(({ value }) => value)
const deadLetters = () =>
  rows('select record_id, reason, status, seen::int from intake_ops.dead_letters order by id')

describe('a malformed file', () => {
  test('is one dead letter that names the line and shows no value; none of its cells is loaded', async () => {
    service.put('bad', malformed)
    const { tally, note } = await run()
    expect(note.text).toBeNull()
    expect(tally).toMatchObject({ fetched: 3, changed: 3, deadLetters: 1 })
    expect(await cells()).toEqual(['a', 'z'])
    expect(await rows(`select * from intake.export_rows where export_id = 'bad'`)).toEqual([])
    expect(await rows(`select * from intake.export_columns where export_id = 'bad'`)).toEqual([])
    const reason = 'the file is malformed: a quote inside a bare cell, line 2'
    expect(await deadLetters()).toEqual([{ record_id: 'bad', reason, status: 'waiting', seen: 1 }])
    expect(
      await rows(
        'select is_loaded, convert_from(body, $$UTF8$$) as text from intake_raw.export_chunks order by 2',
      ),
    ).toEqual(expect.arrayContaining([{ is_loaded: false, text: malformed }]))
  })

  test('is the same dead letter each night, and its bytes are written once', async () => {
    service.put('bad', malformed)
    await run()
    const bytes = () => rows('select ctid::text, xmin::text from intake_raw.export_chunks order by 1')
    const before = await bytes()
    expect((await run()).tally).toMatchObject({ changed: 0, unchanged: 3, deadLetters: 1 })
    expect(await bytes()).toEqual(before)
    expect(await deadLetters()).toMatchObject([{ status: 'waiting', seen: 2 }])
  })

  test('leaves the earlier loaded file in place, until a valid one replaces it', async () => {
    await run()
    service.put('bad', malformed)
    expect((await run()).tally).toMatchObject({ changed: 0, deadLetters: 1 })
    expect(await cells()).toEqual(['a', 'bad', 'z'])
    service.put('bad', good('mended'))
    expect((await run()).tally).toMatchObject({ changed: 1, deadLetters: 0 })
    expect(await cells()).toEqual(['a', 'mended', 'z'])
    expect(await deadLetters()).toMatchObject([{ status: 'resolved' }])
    expect(await rows('select * from intake_raw.export_files where not is_loaded')).toEqual([])
    await using fresh = await createTestDatabase()
    await runExports(service.url, fresh.url)
    expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
  })

  test('is forgotten when the service returns the loaded file again', async () => {
    await run()
    service.put('bad', malformed)
    await run()
    service.put('bad', good('bad'))
    expect((await run()).tally).toMatchObject({ changed: 0, unchanged: 3, deadLetters: 0 })
    expect(await deadLetters()).toMatchObject([{ status: 'resolved' }])
    expect(await rows('select export_id from intake_raw.export_files where not is_loaded')).toEqual([])
  })

  test('whose error is far behind cells that were loaded leaves nothing of them', async () => {
    const many = `p1,Ann,,,,,,${'x'.repeat(100)}\n`.repeat(40_000)
    service.put('bad', `${HEADER},Q\n${many}p2,"Bo\n`)
    expect((await run()).tally).toMatchObject({ deadLetters: 1 })
    expect(await cells()).toEqual(['a', 'z'])
    expect(await deadLetters()).toMatchObject([
      { reason: 'the file is malformed: a quoted cell without end, line 40002' },
    ])
  })
})

test('a file whose loading fails in passing is read again, with a warning that names the team', async () => {
  await rows('create sequence tries')
  await rows(`create function fail_once() returns trigger language plpgsql as $$ begin
    if nextval('tries') = 1 then raise exception using errcode = '40001'; end if;
    return new;
  end $$`)
  await rows(
    'create trigger fail_once before insert on intake.export_rows for each row execute function fail_once()',
  )
  const lines: string[] = []
  const logger = pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(line) })
  expect((await run({ logger })).tally).toMatchObject({ fetched: 3, changed: 3, deadLetters: 0 })
  expect(await cells()).toEqual(['a', 'bad', 'z'])
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      ...{ level: 40, team: 'north', stream: 'exports', code: 'serialization', attempt: 1 },
      msg: 'reading an export again after a failure',
    },
  ])
})

describe('a file that the service does not return', () => {
  const refuse = (status: number) => {
    service.interfere = (request, response) => {
      if (idIn(request) !== 'bad') return false
      response.writeHead(status, { 'content-type': 'application/json' }).end('{"detail":"Jane Doe"}')
      return true
    }
  }

  test.each([
    [404, 'is in the list, but its file is not found (404)'],
    [400, 'the service does not give the file (400)'],
    [422, 'the service does not give the file (422)'],
  ])(
    'with %i is a dead letter, keeps the loaded file, and is resolved when it is returned again',
    async (status, reason) => {
      await run()
      refuse(status)
      service.put('z', good('new'))
      expect((await run()).tally).toMatchObject({ fetched: 3, changed: 1, deadLetters: 1 })
      expect(await deadLetters()).toEqual([{ record_id: 'bad', reason, status: 'waiting', seen: 1 }])
      expect(await cells()).toEqual(['a', 'bad', 'new'])
      service.interfere = () => false
      await run()
      expect(await deadLetters()).toMatchObject([{ status: 'resolved' }])
    },
  )

  test.each([401, 403, 405, 406, 302])('with %i stops the stream, without a dead letter', async (status) => {
    await run()
    const before = await rowVersions(database.url)
    refuse(status)
    service.put('z', good('new'))
    await expect(run()).rejects.toMatchObject({ verdict: 'stop', status, hint: expect.any(String) })
    expect(await deadLetters()).toEqual([])
    expect((await rowVersions(database.url)).length).toBe(before.length)
  })

  test.each([500, 503])('with %i is left to the next run, as the note says', async (status) => {
    await run()
    service.put('bad', malformed)
    await run()
    refuse(status)
    service.put('z', good('new'))
    const { tally, note } = await run()
    expect(tally).toMatchObject({ fetched: 3, changed: 1, deadLetters: 0 })
    expect(note).toMatchObject({ attention: true, text: expect.stringContaining('1 could not be fetched') })
    expect(note.text).toContain(`(${status})`)
    // Nothing proves that the malformed file is gone.
    expect(await deadLetters()).toMatchObject([{ record_id: 'bad', status: 'waiting' }])
    expect(await cells()).toEqual(['a', 'bad', 'new'])
    service.interfere = () => false
    service.put('bad', good('mended'))
    await run()
    expect(await cells()).toEqual(['a', 'mended', 'new'])
    expect(await deadLetters()).toMatchObject([{ status: 'resolved' }])
  })

  test('and that breaks off each time is left to the next run; one that breaks off once is read', async () => {
    let breaks = 1
    service.interfere = (request, response) => {
      if (idIn(request) !== 'bad' || breaks-- <= 0) return false
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '500' })
      response.write(good('part'))
      setTimeout(() => response.destroy(), 20)
      return true
    }
    expect(await run()).toMatchObject({ tally: { deadLetters: 0 }, note: { text: null } })
    expect(await cells()).toEqual(['a', 'bad', 'z'])
    breaks = 100
    expect(await run()).toMatchObject({
      tally: { deadLetters: 0, unchanged: 3 },
      note: { attention: true, text: expect.stringContaining('the connection broke') },
    })
    expect(await deadLetters()).toEqual([])
    expect(await cells()).toEqual(['a', 'bad', 'z'])
  })

  test('with an ambiguous end is accepted when it arrives twice', async () => {
    let answers = [good('whole').slice(0, -4), good('whole'), good('whole')]
    service.interfere = (request, response) => {
      if (idIn(request) !== 'bad') return false
      response.useChunkedEncodingByDefault = false
      response.writeHead(200, { 'content-type': 'text/plain', connection: 'close' })
      response.end(answers.shift())
      return true
    }
    expect((await run()).tally).toMatchObject({ deadLetters: 0 })
    expect(await cells()).toEqual(['a', 'whole', 'z'])
    answers = [good('x'), good('y'), good('z')]
    expect((await run()).tally).toMatchObject({ deadLetters: 1 })
    expect(await deadLetters()).toMatchObject([
      { record_id: 'bad', reason: 'the file may have been cut, and two downloads of it differ' },
    ])
    expect(await cells()).toEqual(['a', 'whole', 'z'])
  })

  test.each([
    ['is cut without notice', good('whole').slice(0, -4)],
    ['is empty', ''],
  ])('completely but %s once is read again, and the loaded file stays', async (_, part) => {
    await run()
    const before = await rowVersions(database.url)
    service.put('bad', good('bad'))
    let answers = 1
    service.interfere = (request, response) => {
      if (idIn(request) !== 'bad' || answers-- <= 0) return false
      response.writeHead(200, { 'content-type': 'text/plain' }).end(part)
      return true
    }
    expect((await run()).requests).toBe(5)
    expect(await rowVersions(database.url)).toEqual(before)
  })

  test('but an HTML page is a dead letter, and keeps the loaded file', async () => {
    await run()
    service.put('bad', '<html>Bad gateway</html>\n', 'text/html; charset=utf-8')
    expect((await run()).tally).toMatchObject({ deadLetters: 1 })
    expect(await deadLetters()).toMatchObject([
      { reason: 'the service sent a page (HTML) in place of the file' },
    ])
    expect(await cells()).toEqual(['a', 'bad', 'z'])
  })

  test('does not stop the files after it', async () => {
    for (let nth = 0; nth < 20; nth++) service.put(`a${nth}`, good('x'))
    service.interfere = (request, response) => {
      if (request.method !== 'POST' || !idIn(request)?.startsWith('a')) return false
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Export not found."}')
      return true
    }
    expect((await run()).tally).toMatchObject({ deadLetters: 21 })
    expect(await cells()).toEqual(['bad', 'z'])
  })

  test('a hundred times in a row ends the stream: the service returns none', async () => {
    for (let nth = 0; nth < 120; nth++) service.put(`e${nth}`, good('x'))
    service.interfere = (request, response) => {
      if (request.method !== 'POST') return false
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Export not found."}')
      return true
    }
    await expect(run()).rejects.toMatchObject({ code: 'not_found' })
    expect(await deadLetters()).toHaveLength(100)
  })

  test('a hundred times in all, with another file in between, does not end the stream', async () => {
    for (const prefix of ['e', 'g'])
      for (let nth = 100; nth < 160; nth++) service.put(`${prefix}${nth}`, good('x'))
    service.put('f', good('between'))
    service.interfere = (request, response) => {
      if (request.method !== 'POST' || !/^[eg]\d/.test(idIn(request)!)) return false
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Export not found."}')
      return true
    }
    expect((await run()).tally).toMatchObject({ deadLetters: 120 })
    expect(await cells()).toContain('between')
  })

  test('because the service fails ten times in a row ends the stream, which does not request them again', async () => {
    for (let nth = 0; nth < 30; nth++) service.put(`e${nth}`, good('x'))
    const asked = new Map<string, number>()
    service.interfere = (request, response) => {
      if (request.method !== 'POST') return false
      const id = idIn(request)!
      asked.set(id, (asked.get(id) ?? 0) + 1)
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"detail":"Sorry."}')
      return true
    }
    await expect(run()).rejects.toMatchObject({ code: 'unavailable', verdict: 'retry' })
    expect(asked.size).toBeLessThanOrEqual(12)
    // Six attempts of one request.
    expect(Math.max(...asked.values())).toBe(6)
    expect(await deadLetters()).toEqual([])
  })

  test('because it is unreachable ends the stream, without a dead letter', async () => {
    await run()
    const before = await rowVersions(database.url)
    service.interfere = (request) => {
      if (request.method === 'GET') void service[Symbol.asyncDispose]()
      return false
    }
    await expect(run({ client: { timeouts: { connect: 200 } } })).rejects.toMatchObject({ verdict: 'retry' })
    expect(await rowVersions(database.url)).toEqual(before)
  })
})

test.each([
  ['malformed', malformed],
  ['good', good('new')],
])('a worker that lost its slice while a %s file arrived changes nothing', async (_, text) => {
  await run()
  const files = () => rows('select export_id, is_loaded, hash from intake_raw.export_files order by 1, 2')
  const before = await files()
  service.interfere = (request, response) => {
    if (idIn(request) !== 'bad') return false
    void rows('update intake_ops.checkpoints set epoch = epoch + 1').then(() => {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(text)
    })
    return true
  }
  await expect(run()).rejects.toMatchObject({ code: 'slice_lost' })
  expect(await files()).toEqual(before)
  expect(await cells()).toEqual(['a', 'bad', 'z'])
  expect(await deadLetters()).toEqual([])
})

test.each([
  [1, 1],
  [2, 1],
  [3, 2],
  [8, 2],
])('of %i requests at once, files take up %i, and every file is read', async (concurrency, atOnce) => {
  let [inFlight, most] = [0, 0]
  const unanswered: (() => void)[] = []
  const answer = async () => {
    // Time for one too many.
    await systemClock.sleep(30)
    for (const go of unanswered.splice(0)) go()
  }
  service.interfere = (request, response) => {
    const id = idIn(request)
    if (id === '') return false
    inFlight += 1
    most = Math.max(most, inFlight)
    unanswered.push(() => {
      inFlight -= 1
      response.writeHead(200, { 'content-type': 'text/plain' }).end(good(id))
    })
    if (most >= atOnce) void answer()
    return true
  }
  await run({ client: { concurrency } })
  expect(await cells()).toEqual(['a', 'bad', 'z'])
  expect(most).toBe(atOnce)
})
