import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parse } from 'csv-parse/sync'
import { describe, expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { sheetOf } from '../http/resources/exporting.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../real-data.ts'

const LEADING = 7
const SAMPLE = 40

interface Grid {
  readonly titles: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** What the export of a survey shows of it: titles and cells, without what stands before them. */
async function exported(caller: Caller, form: string): Promise<Grid> {
  const { titles, rows } = await sheetOf(caller, form)
  return { titles: titles.slice(LEADING), rows: rows.map((row) => row.slice(LEADING)) }
}

/** A file read without the importer's help, each row as wide as the widest. */
function gridOf(text: string): Grid | undefined {
  const options = { bom: true, relax_column_count: true, relax_quotes: true, skip_empty_lines: true }
  const all = parse(text, options) as string[][]
  const width = Math.max(...all.map((row) => row.length))
  const [titles, ...rows] = all.map((row) => [...row, ...Array<string>(width - row.length).fill('')])
  return titles === undefined ? undefined : { titles, rows }
}

const files = realDataMissing
  ? []
  : readdirSync(realData('surveys'), { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.csv'),
    )

describe.skipIf(realDataMissing)(`real surveys${reasonWhenMissing}`, () => {
  it('are numerous', () => expect(files.length).toBeGreaterThan(90))

  it.each(files)('%s comes back title for title and cell for cell', async (file) => {
    const path = realData(`surveys/${file}`)
    const grid = gridOf(readFileSync(path, 'utf8'))
    const starting = startEmulator({ port: 0, patients: 3, importSurvey: path })
    if (grid === undefined) {
      await expect(starting).rejects.toThrow(/^--import-survey: .* is empty/)
      return
    }
    await using emulator = await starting
    const caller = callerOf(emulator)
    const [form] = (await caller.get('/v2/forms?page_size=1')).body.results
    expect(form.name).toBe(basename(file, '.csv'))
    expect(form.questions.map((one: Loose) => one.text)).toEqual(grid.titles)
    expect(await exported(caller, form.name)).toEqual(grid)

    const asked = `/v2/responses?form=${form.id}&limit=${SAMPLE}`
    const places = [0, Math.max(0, grid.rows.length - SAMPLE)]
    for (const offset of places) {
      const { count, results } = (await caller.get(`${asked}&offset=${offset}`)).body
      expect(count).toBe(grid.rows.length)
      const answers = results.map((one: Loose) => one.answers.map((each: Loose) => each.answer_text))
      const cells = grid.rows.slice(offset, offset + SAMPLE)
      expect(answers).toEqual(cells.map((row) => row.map((cell) => (cell === '' ? null : cell))))
    }
  })
})
