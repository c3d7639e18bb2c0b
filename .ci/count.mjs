// Prints each failed test with its file and the start of its messages, so that the end of a log names the test. The last
// line is "N passed, N failed", summed over the test runner's JSON reports. Exits 1 when a test failed, a report is
// missing, or no test ran. A file that could not be loaded counts as one failure.
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Limits for the messages of one test; the log of the run itself has all of them. */
const shownLines = 30
const shownCharacters = 300

const print = (file, title, messages) => {
  process.stdout.write(`\nfailed: ${relative(process.cwd(), file)}: ${title}\n`)
  const lines = messages.flatMap((message) => message.split('\n'))
  for (const line of lines.slice(0, shownLines)) process.stdout.write(`  ${line.slice(0, shownCharacters)}\n`)
}

const sums = { passed: 0, failed: 0, skipped: 0 }
let complete = true
for (const path of process.argv.slice(2)) {
  let report
  try {
    report = JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    process.stdout.write('a test run ended without a report\n')
    complete = false
    continue
  }
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((one) => one.status === 'failed'),
  )
  for (const { name, message } of unloaded) print(name, 'as a whole', [message ?? ''])
  for (const { name, assertionResults } of report.testResults)
    for (const one of assertionResults)
      if (one.status === 'failed') print(name, one.fullName, one.failureMessages ?? [])
  sums.passed += report.numPassedTests
  sums.failed += report.numFailedTests + unloaded.length
  sums.skipped += report.numPendingTests
  complete &&= report.success && report.numPassedTests > 0
}
if (sums.skipped > 0) process.stdout.write(`${sums.skipped} skipped\n`)
process.stdout.write(`${sums.passed} passed, ${sums.failed} failed\n`)
process.exit(complete && sums.failed === 0 && sums.passed > 0 ? 0 : 1)
