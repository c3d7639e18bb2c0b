/** The capacity model: its tables are those of docs/scaling.md, and its constants those of docs/benchmarks.md. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const run = (...words: string[]) =>
  spawnSync(process.execPath, [join(root, 'scripts/capacity.mjs'), ...words], { encoding: 'utf8' })
const read = (name: string) => readFileSync(join(root, name), 'utf8')

/** Values of the first table, by their rows; of rows with one name, the last. */
function valuesOf(...words: string[]): ReadonlyMap<string, string> {
  const { status, stdout } = run(...words)
  expect(status).toBe(0)
  return new Map([...stdout.matchAll(/^\| ([^|]+) \| ([^|]*) \|$/gm)].map((row) => [row[1]!, row[2]!]))
}

describe('npm run capacity', () => {
  it('prints the tables of docs/scaling.md', () => {
    const shown = /<!-- npm run capacity -->\n([\s\S]*?)<!-- end -->/.exec(read('docs/scaling.md'))?.[1]
    expect(run()).toMatchObject({ status: 0, stdout: shown })
  })

  it('rests on figures that docs/benchmarks.md has', () => {
    const benchmarks = read('docs/benchmarks.md')
    for (const row of ['loaded or drained per second, one process', 'read and unchanged per second']) {
      const line = run()
        .stdout.split('\n')
        .find((each) => each.startsWith(`| ${row} |`))!
      const figures = line.match(/\d[\d,]*/g)!
      expect(figures.length).toBeGreaterThan(1)
      for (const figure of figures) expect(benchmarks).toContain(figure)
    }
    expect(benchmarks).toContain('| six teams, 20 requests/s each | 109/s |')
    expect(benchmarks).toContain('pages of 10; of 100 patients | 732; 167 |')
  })

  it.each([
    // Six teams at once use 91 % of their limits, one team 95 %.
    ['109, bounded by the limit: 6 teams at once', '20'],
    ['5.5, bounded by the limit: 6 teams at once', '1/s'],
    ['5.5, bounded by the limit: 6 teams at once', '60/min'],
    ['11, bounded by the limit: 6 teams at once', '7200/h'],
    ['19, bounded by the limit: 1 team at once', '20/s', '--teams', '1'],
    ['36, bounded by the limit: 2 teams at once', '20/s', '--teams', '2'],
    // However much is permitted.
    ['167, bounded by its core, at 100 records on a page', '500', '--teams', '1'],
    ['167, bounded by its core, at 100 records on a page', '9000'],
    ['732, bounded by its core, at 10 records on a page', '9000', '--page', '10'],
  ])('one process sends %s requests per second where %s are permitted', (rate, limit, ...words) => {
    const options = ['--limit', limit, ...words]
    expect(valuesOf(...options).get('requests per second of one process')).toBe(rate)
  })

  it('takes as long for the requests as this rate and their number say', () => {
    const one = ['--teams', '1', '--responses', '190000', '--patients', '1000', '--page', '100']
    // 1,910 requests: 19 a second are permitted, and 167 possible.
    const timeOf = (limit: string) =>
      /\| time of the requests of one process \| ([^|]+) \|/.exec(run(...one, '--limit', limit).stdout)![1]
    expect(timeOf('20')).toBe('100 seconds')
    expect(timeOf('10000')).toBe('11 seconds')
  })

  it('counts what follows from its options alone', () => {
    // One team, one year: 365 responses on pages of 10, so 37 requests, and one page of patients.
    const few = ['--teams', '1', '--responses', '365', '--patients', '10', '--years', '1', '--page', '10']
    const { stdout } = run(...few)
    expect(stdout).toContain('| 1 teams, 10 patients, 365 responses, 3,650 answers | |')
    expect(stdout.split('**First load**')[1]).toMatch(/^ \| {2}\|\n\| requests \| 38 \|/)
    // One response a day, each three events, and 1 % of ten patients.
    expect(valuesOf(...few).get('events')).toBe('3.1')
    // Each team has pages of its own.
    expect(run(...few, '--teams', '5').stdout.split('**First load**')[1]).toContain('| requests | 45 |')
  })

  it('logs more where one team has all records, and less with a larger max_wal_size', () => {
    const logOf = (...words: string[]) => {
      const [size, unit] = /write-ahead log \| ([\d.]+) (GB|TB)/.exec(run(...words).stdout)!.slice(1)
      return Number(size) * (unit === 'TB' ? 1_000 : 1)
    }
    const one = logOf('--teams', '1')
    expect(one).toBeGreaterThan(2 * logOf())
    expect(logOf('--teams', '1', '--max-wal', '1000')).toBeLessThan(one / 2)
  })

  it.each([
    ['--teams', '0'],
    ['--page', 'many'],
    ['--page', '5/s'],
    ['--limit', '5/day'],
    ['--limit', '0/s'],
    ['--rows', '5'],
  ])('refuses %s %s, with exit code 2', (...words) => {
    const { status, stdout, stderr } = run(...words)
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toContain('npm run capacity --')
  })

  it('explains every option with --help', () => {
    const { status, stdout } = run('--help')
    expect(status).toBe(0)
    for (const [option] of stdout.split('\n\n')[0]!.matchAll(/--[a-z-]+(?= )/g)) {
      if (option !== '--') expect(stdout).toMatch(new RegExp(`^ {2}${option} `, 'm'))
    }
  })
})
