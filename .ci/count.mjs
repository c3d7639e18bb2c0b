// Prints each failed test with its file and the beginning of what it said, and, as the last line, "N passed, N failed"
// from the JSON reports of the test runner, added up: who has only the end of a log knows which test it was. Ends with 1
// when something failed, when a report is missing, or when nothing was tested. A file that could not be loaded counts as
// one failure.
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Of what one test said; the whole is further up, where it ran. */
const shownLines = 30
const shownCharacters = 300

const tell = (file, title, messages) => {
  process.stdout.write(`\nfailed: ${relative(process.cwd(), file)}: ${title}\n`)
  const lines = messages.flatMap((message) => message.split('\n'))
  for (const line of lines.slice(0, shownLines)) process.stdout.write(`  ${line.slice(0, shownCharacters)}\n`)
}

const sums = { passed: 0, failed: 0, skipped: 0 }
let whole = true
for (const path of process.argv.slice(2)) {
  let report
  try {
    report = JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    process.stdout.write('a run of tests ended without a report\n')
    whole = false
    continue
  }
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((one) => one.status === 'failed'),
  )
  for (const { name, message } of unloaded) tell(name, 'as a whole', [message ?? ''])
  for (const { name, assertionResults } of report.testResults)
    for (const one of assertionResults)
      if (one.status === 'failed') tell(name, one.fullName, one.failureMessages ?? [])
  sums.passed += report.numPassedTests
  sums.failed += report.numFailedTests + unloaded.length
  sums.skipped += report.numPendingTests
  whole &&= report.success && report.numPassedTests > 0
}
if (sums.skipped > 0) process.stdout.write(`${sums.skipped} skipped\n`)
process.stdout.write(`${sums.passed} passed, ${sums.failed} failed\n`)
process.exit(whole && sums.failed === 0 && sums.passed > 0 ? 0 : 1)
