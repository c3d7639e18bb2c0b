/**
 * The ids of the patients of a state, from the service itself, with the client library: `tsx patients.ts CA`.
 *
 * The client keeps to the service's rate limit, repeats what may be repeated, and reads every shape of list.
 */
import { ApiError, listPatients, openClient, systemClock } from 'intake-sync'
import pino from 'pino'

const [state] = process.argv.slice(2)
const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey, INTAKE_API_SECRET: apiSecret } = process.env
if (state === undefined || !baseUrl || !apiKey || !apiSecret) {
  process.stderr.write(
    'usage: patients.ts STATE, with INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET\n',
  )
  process.exit(2)
}

const client = openClient({
  ...{ baseUrl, apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 4 },
  ...{ clock: systemClock, random: Math.random, logger: pino({ level: 'warn' }, pino.destination(2)) },
})
try {
  let seen = 0
  for await (const page of listPatients(client)) {
    seen += page.records.length
    for (const { id, ...patient } of page.records)
      if (patient.state === state) process.stdout.write(`${id}\n`)
    // A field of another type than expected is left out and named here; `page.raw` has what was received.
    for (const { path } of page.problems) process.stderr.write(`not as expected: ${path}\n`)
  }
  process.stderr.write(`${seen} patients were read\n`)
} catch (error) {
  // `hint` says what to do; no message contains a value of a record or a secret.
  if (!(error instanceof ApiError)) throw error
  process.stderr.write(`${error.message}\n${error.hint ?? ''}\n`)
  process.exitCode = 1
} finally {
  await client.close()
}
