// Prints "N passed, N failed" from the JSON report of the test runner. Ends with 1 when something failed, when there
// is no report, or when nothing was tested. A file that could not be loaded counts as one failure.
import { readFileSync } from 'node:fs'

let report
try {
  report = JSON.parse(readFileSync(process.argv[2], 'utf8'))
} catch {
  process.stdout.write('the tests ended without a report\n')
  process.exit(1)
}
const unloaded = report.testResults.filter(
  ({ status, assertionResults }) =>
    status === 'failed' && !assertionResults.some((one) => one.status === 'failed'),
)
const failed = report.numFailedTests + unloaded.length
for (const { name } of unloaded) process.stdout.write(`failed as a whole: ${name}\n`)
if (report.numPendingTests > 0) process.stdout.write(`${report.numPendingTests} skipped\n`)
process.stdout.write(`${report.numPassedTests} passed, ${failed} failed\n`)
process.exit(failed === 0 && report.success && report.numPassedTests > 0 ? 0 : 1)
