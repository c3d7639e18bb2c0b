// What a warehouse of some size asks of the service, of Postgres and of the machines: `npm run capacity -- --help`.
// docs/scaling.md has its output for a thousand teams; test/scripts/capacity.test.ts compares them.
import { parseArgs } from 'node:util'

const USAGE = `npm run capacity -- [--teams N] [--responses N] [--patients N] [--years N] [--limit N] [--page N] [--max-wal GB]

  --teams N      teams (1000)
  --responses N  of all teams, with ten answers each (100000000)
  --patients N   of all teams (10000000)
  --years N      in which they came; gives the changes of a day (5)
  --limit N      permitted requests of a team: per second, or as INTAKE_RATE_LIMIT (20, 20/s, 1000/min, 5000/h)
  --page N       records on a page (100)
  --max-wal GB   max_wal_size of Postgres (64)
`

/**
 * Measured on two shared cores, Postgres on the same machine: records and events per second and requests as in
 * docs/benchmarks.md; bytes and rows by `npm run bench -- --only storage`. A response has ten answers.
 */
const MEASURED = {
  responses: { load: 6_030, unchanged: 40_200, sent: 3_329, rows: 14.35, disk: 7_660, log: 8_064 },
  patients: { load: 25_100, unchanged: 90_300, sent: 612, rows: 4.83, disk: 2_031, log: 2_156 },
  /** A night in which 1 % of the patients changed: microseconds per changed record. */
  changed: { patients: 163, log: 5_113 },
  events: { stored: 14_200, drained: 6_050, log: 6_192, disk: 3_007 },
  /**
   * Share of a limit that a run of one team uses, and one of six teams: 109 of 120 requests per second. Milliseconds of one
   * core for a request, and for each of its records, without loading them: 732 requests per second with pages of ten
   * patients, 167 with a hundred.
   */
  requests: { share: 0.95, shareOfSix: 0.91, each: 0.852, record: 0.0515 },
}

/** Assumed; change them here. */
const ASSUMED = {
  eventsOfResponse: 3,
  changedPatients: 0.01,
  /** Of the busiest hour, against the mean. */
  peak: 10,
  /** Days of the windows of a night (INTAKE_LOOKBACK_DAYS, and the day itself), between two sweeps, of the inbox. */
  windowDays: 3,
  sweepDays: 7,
  inboxDays: 30,
}

/** Teams that one process reads at full speed; keys begin with the team, so only their part of an index is written. */
const TEAMS_AT_ONCE = 6
/** Index pages that a new record writes at a random place, once indexes are large; entries on such a page. */
const INDEX_PAGES = { responses: 5.55, patients: 5 }
const ENTRIES_OF_PAGE = 64
const PAGE_BYTES = 8_192

const DAY = 86_400
const HOUR = 3_600
const SECONDS_OF = { s: 1, min: 60, h: HOUR }

/**
 * Bytes of the write-ahead log of a first load. After each checkpoint the first write to a page logs the whole page, so a
 * load into one index that is larger than what a checkpoint interval writes logs almost a page for each record.
 */
function logOf(records, teams, { log }, indexPages, maxWalBytes) {
  const STEPS = 50
  const together = Math.min(teams, TEAMS_AT_ONCE)
  let total = 0
  for (let step = 0.5; step < STEPS; step++) {
    const pages = Math.max(1, ((records / teams) * together * (step / STEPS)) / ENTRIES_OF_PAGE)
    let each = log
    // What a record logs decides how many records lie between two checkpoints, and they what a record logs.
    for (let round = 0; round < 50; round++) {
      const between = Math.min(maxWalBytes / 1.9 / each, (records / teams) * together)
      const fresh = (pages * (1 - Math.exp(-between / pages))) / between
      each = (each + log + fresh * indexPages * PAGE_BYTES) / 2
    }
    total += (each * records) / STEPS
  }
  return total
}

const count = (value) => {
  const [size, unit] = [
    [1e9, ' billion'],
    [1e6, ' million'],
  ].find(([least]) => value >= least) ?? [1, '']
  const scaled = value / size
  return `${scaled >= 100 ? Math.round(scaled).toLocaleString('en-US') : Number(scaled.toPrecision(2))}${unit}`
}
const bytes = (value) =>
  value >= 1e12 ? `${Number((value / 1e12).toPrecision(2))} TB` : `${Number((value / 1e9).toPrecision(2))} GB`
const duration = (seconds) => {
  const [size, unit] = [
    [DAY, 'days'],
    [HOUR, 'hours'],
    [60, 'minutes'],
  ].find(([least]) => seconds >= 2 * least) ?? [1, 'seconds']
  return `${Number((seconds / size).toPrecision(2))} ${unit}`
}

/**
 * Requests per second of a plain `backfill`, and their bound: the limits of the teams that it reads at once, or its core, which
 * parses and normalizes their records.
 */
function ofOneProcess({ teams, limit, page }) {
  const { share, shareOfSix, each, record } = MEASURED.requests
  const together = Math.min(teams, TEAMS_AT_ONCE)
  const permitted = together * limit * (together > 1 ? shareOfSix : share)
  const possible = 1_000 / (each + page * record)
  return possible < permitted
    ? [possible, `its core, at ${count(page)} records on a page`]
    : [permitted, `the limit: ${count(together)} team${together === 1 ? '' : 's'} at once`]
}

function capacity({ teams, responses, patients, years, limit, page, maxWal }) {
  const { events, requests, changed } = MEASURED
  const [rate, bound] = ofOneProcess({ teams, limit, page })
  const pagesOf = (records) => teams * Math.ceil(records / teams / page)
  const atLimit = (number) => number / (teams * limit * requests.share)
  const perDay = { responses: responses / years / 365, patients: patients / years / 365 }

  const first = pagesOf(responses) + pagesOf(patients)
  const loading = responses / MEASURED.responses.load + patients / MEASURED.patients.load
  const log =
    logOf(responses, teams, MEASURED.responses, INDEX_PAGES.responses, maxWal * 1e9) +
    logOf(patients, teams, MEASURED.patients, INDEX_PAGES.patients, maxWal * 1e9)

  const windows = perDay.responses * ASSUMED.windowDays
  const sweep = responses / ASSUMED.sweepDays
  const night = pagesOf(patients) + pagesOf(windows) + pagesOf(responses) / ASSUMED.sweepDays
  const altered = patients * ASSUMED.changedPatients
  const reading =
    patients / MEASURED.patients.unchanged +
    (windows + sweep) / MEASURED.responses.unchanged +
    (altered * changed.patients) / 1e6

  const daily = perDay.responses * ASSUMED.eventsOfResponse + altered
  const peak = (daily / DAY) * ASSUMED.peak

  return [
    ['**Stored**'],
    ['rows', count(responses * MEASURED.responses.rows + patients * MEASURED.patients.rows)],
    [
      'disk: tables and indexes',
      bytes(responses * MEASURED.responses.disk + patients * MEASURED.patients.disk),
    ],
    ['**First load**'],
    ['requests', count(first)],
    ['sent by the service', bytes(responses * MEASURED.responses.sent + patients * MEASURED.patients.sent)],
    ['time at the service’s limit, all teams at once', duration(atLimit(first))],
    ['requests per second of one process', `${count(rate)}, bounded by ${bound}`],
    ['time of the requests of one process', duration(first / rate)],
    ['time of loading in one process', duration(loading)],
    ['write-ahead log', bytes(log)],
    ['**A night**'],
    ['requests', count(night)],
    ['time of the requests of one process', duration(night / rate)],
    ['time of comparing and loading in one process', duration(reading)],
    ['write-ahead log', bytes(altered * changed.log + perDay.responses * MEASURED.responses.log)],
    ['**A day of webhooks**'],
    ['events', count(daily)],
    ['events per second in the busiest hour', count(peak)],
    ['of what one process stores and loads', `${Number(((100 * peak) / events.drained).toPrecision(2))} %`],
    ['write-ahead log', bytes(daily * events.log)],
    ['disk of the inbox', bytes(daily * events.disk * ASSUMED.inboxDays)],
  ]
}

/** The constants that a reader may want to compare with figures of a machine of their own. */
function constants() {
  const { patients, responses, events, changed } = MEASURED
  const number = (value) => (value === undefined ? '' : value.toLocaleString('en-US'))
  return [
    ['loaded or drained per second, one process', patients.load, responses.load, events.drained],
    ['read and unchanged per second', patients.unchanged, responses.unchanged],
    ['bytes from the service', patients.sent, responses.sent, 1_024],
    ['rows', patients.rows, responses.rows],
    ['bytes of tables and indexes', patients.disk, responses.disk, events.disk],
    [
      'bytes of the write-ahead log; of a changed record',
      `${number(patients.log)}; ${number(changed.log)}`,
      responses.log,
      events.log,
    ],
  ].map(([what, ...values]) => [
    what,
    ...[0, 1, 2].map((at) => (typeof values[at] === 'string' ? values[at] : number(values[at]))),
  ])
}

const DEFAULTS = {
  ...{ teams: '1000', responses: '100000000', patients: '10000000', years: '5', limit: '20', page: '100' },
  'max-wal': '64',
}

const ACCEPTED = { teams: 'a whole number above 0', limit: 'a number above 0, or 20/s, 1000/min, 5000/h' }

function readOptions(words) {
  const options = Object.fromEntries(
    Object.entries(DEFAULTS).map(([name, value]) => [name, { type: 'string', default: value }]),
  )
  const { values } = parseArgs({ args: words, options: { ...options, help: { type: 'boolean' } } })
  if (values.help) return null
  const numbers = Object.fromEntries(
    Object.keys(DEFAULTS).map((name) => {
      const [, text, unit] = /^(.*?)(?:\/(s|min|h))?$/.exec(values[name])
      const number = Number(text) / (name === 'limit' && unit ? SECONDS_OF[unit] : 1)
      const isNumber = name === 'limit' || (!unit && (name !== 'teams' || Number.isInteger(number)))
      if (!(number > 0) || !isNumber)
        throw new Error(`--${name} takes ${ACCEPTED[name] ?? 'a number above 0'}`)
      return [name, number]
    }),
  )
  return { ...numbers, maxWal: numbers['max-wal'] }
}

try {
  const options = readOptions(process.argv.slice(2))
  const { teams, responses, patients } = options ?? {}
  const lines =
    options === null ? [] : capacity(options).map(([what, value = '']) => `| ${what} | ${value} |`)
  process.stdout.write(
    options === null
      ? USAGE
      : `| ${count(teams)} teams, ${count(patients)} patients, ${count(responses)} responses, ${count(responses * 10)} answers | |
|---|---|
${lines.join('\n')}

| measured | patient | response | event |
|---|---|---|---|
${constants()
  .map((row) => `| ${row.join(' | ')} |`)
  .join('\n')}
`,
  )
} catch (error) {
  process.stderr.write(`${error.message}\n\n${USAGE}`)
  process.exitCode = 2
}
