/** How a file is rewritten without the rows of erased patients: its chunks, and how often each patient was met. */
import { beforeEach, expect, test, vi } from 'vitest'
import { countSkipped, erasedOfTeam, openErasures } from '../../../src/load/erasures.ts'
import { openErasedRows, storeChunks, withoutErasedRows } from '../../../src/load/exports/erased-rows.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/load/erasures.ts', async (original) => ({
  ...(await original<object>()),
  openErasures: vi.fn(),
  erasedOfTeam: vi.fn(),
  countSkipped: vi.fn(),
}))

const CHUNK = 1024 * 1024

async function* pieces(...sizes: readonly number[]) {
  for (const [at, size] of sizes.entries()) yield Buffer.alloc(size, 97 + at)
}

test.each([
  ['no bytes, no chunk', [0], []],
  ['pieces are joined up to a mebibyte', [CHUNK - 1, 1, 5], [CHUNK, 5]],
  ['a piece is never cut, however large', [5, 2 * CHUNK, 7], [2 * CHUNK + 5, 7]],
  ['a file of whole chunks ends with none that is empty', [CHUNK, CHUNK], [CHUNK, CHUNK]],
])('%s', async (_, sizes, chunks) => {
  const stored: (readonly unknown[])[] = []
  const db = scripted((statement, values) => {
    expect(statement).toMatch(/^insert into intake_raw.export_chunks/)
    stored.push(values)
    return []
  })
  await storeChunks(db, { teamId: 3, exportId: 'e' }, pieces(...sizes))
  expect(stored.map((values) => values.slice(0, 3))).toEqual(chunks.map((_, at) => [3, 'e', at + 1]))
  const bytes = stored.map((values) => values[3] as Buffer)
  expect(bytes.map(({ length }) => length)).toEqual(chunks)
  const whole: Buffer[] = []
  for await (const piece of pieces(...sizes)) whole.push(piece)
  expect(Buffer.concat(bytes).equals(Buffer.concat(whole))).toBe(true)
})

/** A file of CSV in pieces, without the rows of these numbers; a row that is asked about is noted. */
async function rewritten(text: string, isJsonString: boolean, erased: readonly number[], cut = 7) {
  const asked: string[] = []
  const bytes = Buffer.from(text, 'latin1')
  const chunks = Math.ceil(bytes.length / cut)
  const file = {
    ...{ isJsonString, chunks },
    chunk: async (number: number) => bytes.subarray((number - 1) * cut, number * cut),
  }
  const all: Buffer[] = []
  const isErased = (cells: readonly string[], row: number) => {
    asked.push(`${row} ${cells.join('|')}`)
    return erased.includes(row)
  }
  for await (const piece of withoutErasedRows(file, isErased)) all.push(piece)
  return { text: Buffer.concat(all).toString('latin1'), asked }
}
const GONE = '"\u007ferased\u007f"'

test('a row keeps its number when others before it are erased; the header, and what was erased before, are not asked about', async () => {
  const { text, asked } = await rewritten(`id,"a ""b"""\r\n1,\xe9\n\n${GONE}\n3,c,\n4,d`, false, [1, 4], 20)
  expect(asked).toEqual(['1 1|\xe9', '3 3|c|', '4 4|d'])
  expect(text).toBe(`"id","a ""b"""\n${GONE}\n${GONE}\n"3","c",""\n${GONE}\n`)
  // The last record has no line end, and is not lost.
  const again = await rewritten(text, false, [], 20)
  expect([again.asked, again.text]).toEqual([['3 3|c|'], text])
})

test('a file that is a JSON string stays one, with the same text inside', async () => {
  const csv = 'id,"a\n\tb"\n1,"x\\y"\n2,z\n'
  const { text, asked } = await rewritten(JSON.stringify(csv), true, [2], 20)
  expect(asked).toEqual(['1 1|x\\y', '2 2|z'])
  expect(JSON.parse(text)).toBe(`"id","a\n\tb"\n"1","x\\y"\n${GONE}\n`)
  expect(text).toContain('\\u0009')
})

beforeEach(() => {
  vi.mocked(openErasures).mockReset()
  vi.mocked(erasedOfTeam).mockReset()
  vi.mocked(countSkipped).mockReset()
})

test('rows of erased patients are counted by the subject that is erased: the patient, the client, or the person', async () => {
  const db = scripted(() => [])
  const erasures = {
    teamId: 3,
    hashOf: ({ stream, id }: { stream: string; id: string }) => `${stream}/${id}`,
  }
  vi.mocked(openErasures).mockResolvedValue(erasures)
  const erased = ['patients/p1', 'exports/client p2', 'exports/person a@b.c\nann\nlee']
  // A row without one of the names is no person, whatever is erased.
  erased.push('exports/person a@b.c\n\nlee')
  vi.mocked(erasedOfTeam).mockResolvedValue(new Map(erased.map((hash, at) => [hash, `patient ${at}`])))
  const rows = (await openErasedRows(db, 3))!
  const row = (id: string, first = 'Ann', last = 'Lee', email = 'A@b.c') => [id, first, last, email]
  const met = [
    row('p1'),
    row('p2'),
    row('p1'),
    row('p3'),
    row(''),
    row('', 'ANN'),
    row('', ''),
    row('', 'Bo'),
    [''],
  ]
  expect(met.map((cells) => rows.isErased(cells))).toEqual([
    ...[true, true, true, false],
    ...[true, true, false, false, false],
  ])
  expect(rows.met).toBe(5)
  await rows.count()
  expect(vi.mocked(countSkipped).mock.calls).toEqual([
    [
      db,
      erasures,
      [
        { hash: 'patients/p1', patient: 'patient 0', times: 2 },
        { hash: 'exports/client p2', patient: 'patient 1', times: 1 },
        { hash: 'exports/person a@b.c\nann\nlee', patient: 'patient 2', times: 2 },
      ],
    ],
  ])
  vi.mocked(openErasures).mockResolvedValue(null)
  expect(await openErasedRows(db, 3)).toBeNull()
})
