// Prints "N passed, N failed" from the JSON reports of the test runner, added up. Ends with 1 when something failed, when
// a report is missing, or when nothing was tested. A file that could not be loaded counts as one failure.
import { readFileSync } from 'node:fs'

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
  for (const { name } of unloaded) process.stdout.write(`failed as a whole: ${name}\n`)
  sums.passed += report.numPassedTests
  sums.failed += report.numFailedTests + unloaded.length
  sums.skipped += report.numPendingTests
  whole &&= report.success && report.numPassedTests > 0
}
if (sums.skipped > 0) process.stdout.write(`${sums.skipped} skipped\n`)
process.stdout.write(`${sums.passed} passed, ${sums.failed} failed\n`)
process.exit(whole && sums.failed === 0 && sums.passed > 0 ? 0 : 1)
