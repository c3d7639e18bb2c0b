/**
 * `npm run soak -- [--nights 365] [--patients 300] [--changes 40] [--svg FILE] [--json FILE]`: plays the nights, prints one
 * line a week and what was found at the end. Exit 1 if something differs, grows or is not vacuumed.
 */
import { writeFileSync } from 'node:fs'
import { plotSvg } from '../support/plot.ts'
import { fileToWrite, readWords, wholeNumber } from '../support/words.ts'
import { judge } from './judge.ts'
import { type Night, soak } from './soak.ts'

const USAGE = `npm run soak -- [--nights 365] [--patients 300] [--changes 40] [--svg FILE] [--json FILE]

  --nights N    how many are played; about five seconds each
  --patients N  of the service
  --changes N   by day
  --svg FILE    writes the plots
  --json FILE   writes the figures`

const { values } = readWords(USAGE, {
  nights: { type: 'string' },
  patients: { type: 'string' },
  changes: { type: 'string' },
  svg: { type: 'string' },
  json: { type: 'string' },
})
const nights = wholeNumber('--nights', values.nights ?? '365')
const patients = wholeNumber('--patients', values.patients ?? '300')
const changes = wholeNumber('--changes', values.changes ?? '40')
const svg = values.svg === undefined ? null : fileToWrite('--svg', values.svg)
const json = values.json === undefined ? null : fileToWrite('--json', values.json)

const MEBIBYTE = 1024 * 1024
/** Both are over well before the middle of the year. */
const [inboxDays, historyDays] = [Math.min(30, Math.ceil(nights / 8)), Math.min(90, Math.ceil(nights / 4))]
const line = ({ night, databaseBytes, residentBytes, seconds, drainSeconds, events, exitCode }: Night) =>
  `night ${night}: ${(databaseBytes / MEBIBYTE).toFixed(1)} MiB on disk, ${(residentBytes / MEBIBYTE).toFixed(0)} MiB of memory, backfill ${seconds.toFixed(1)} s (exit ${exitCode}), ${events} events, p99 to their rows ${drainSeconds.toFixed(2)} s\n`

const found = await soak({
  ...{ nights, patients, changes, inboxDays, historyDays },
  onNight: (night) => night.night % 7 === 0 && process.stdout.write(line(night)),
})
const faults = judge(found, historyDays)
process.stdout.write(
  `${found.nights.length} nights, retention ${inboxDays} and ${historyDays} days; oldest row ${found.oldestAge} transactions\n`,
)
for (const fault of faults) process.stdout.write(`WRONG: ${fault}\n`)
if (json !== null) writeFileSync(json, `${JSON.stringify({ ...found, faults }, null, 2)}\n`)
if (svg !== null) {
  const of = (value: (night: Night) => number) =>
    found.nights.map((each) => [each.night, value(each)] as const)
  const panel = (title: string, value: (night: Night) => number) => ({
    title,
    lines: [{ name: title, points: of(value) }],
  })
  const plot = plotSvg({
    title: `${nights} nights`,
    xTitle: 'night',
    panels: [
      panel('database, MiB', ({ databaseBytes }) => databaseBytes / MEBIBYTE),
      panel(
        'memory of the process that serves and backfills, MiB',
        ({ residentBytes }) => residentBytes / MEBIBYTE,
      ),
      panel('backfill, seconds', ({ seconds }) => seconds),
      panel('event received → row, p99 of a day, seconds', ({ drainSeconds }) => drainSeconds),
    ],
  })
  writeFileSync(svg, plot)
}
process.exitCode = faults.length === 0 ? 0 : 1
