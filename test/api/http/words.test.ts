/** What a person reads of each failure: what happened, how often it was tried, and what to do. */
import { expect, test } from 'vitest'
import { ApiError } from '../../../src/api/errors.ts'
import {
  type Failure,
  failureOfBody,
  failureOfFault,
  failureOfRedirect,
  failureOfStatus,
  failureOfThrottling,
} from '../../../src/api/http/failures.ts'

const fault = (code?: string) => failureOfFault(Object.assign(new Error('m'), { code }), 'host:443')
const LATER = 'Run again later; if it goes on, ask the service’s operators.'
const CREDENTIALS =
  'Check INTAKE_API_KEY and INTAKE_API_SECRET; a sandbox key does not open production, nor the reverse.'

test.each<[Failure, what: string, hint: string]>([
  [failureOfStatus(401, false), 'the service saw no credentials (401)', CREDENTIALS],
  [failureOfStatus(403, false), 'the service refused the credentials (403)', CREDENTIALS],
  [
    failureOfStatus(404, true),
    'not found (404)',
    'The resource is deleted, or another team’s; if every path says so, check INTAKE_BASE_URL.',
  ],
  [
    failureOfStatus(405, false),
    'the path does not allow this method (405)',
    'The service has no such endpoint there: set its path in `paths` of the configuration.',
  ],
  [
    failureOfStatus(406, false),
    'the service takes no requests of this form (406)',
    'Check INTAKE_BASE_URL, INTAKE_API_VERSION and any proxy in between.',
  ],
  [failureOfStatus(429, false), 'the service throttles this team (429)', LATER],
  [failureOfStatus(408, false), 'the service did not take the request (408)', LATER],
  [failureOfStatus(502, false), 'the service failed (502)', LATER],
  [
    failureOfStatus(422, true),
    'the service refused the request as invalid (422)',
    'Check the filters, the body and `paths` in the configuration against the service’s documentation.',
  ],
  [failureOfStatus(199, false), 'the service answered with a status we cannot use (199)', LATER],
  [
    failureOfThrottling('gave_up', 90_000),
    'the service throttles this team, and accepted no request for 90s (429)',
    'Run fewer clients of this team at a time, or ask the service’s operators for a higher limit; INTAKE_GIVE_UP_AFTER (90s) says how long to wait.',
  ],
  [
    failureOfThrottling('too_long', 3_600_000),
    'the service throttles this team and requests a pause longer than 1h (429)',
    'Run fewer clients of this team at a time, or ask the service’s operators for a higher limit; INTAKE_GIVE_UP_AFTER (1h) says how long to wait.',
  ],
  [
    failureOfRedirect(301, false),
    'the service redirects (301), and redirects are not followed',
    'Set INTAKE_BASE_URL to the current address of the service.',
  ],
  [
    failureOfRedirect(308, true),
    'the service redirects to the same path with its slash at the end changed (308), and redirects are not followed',
    'Correct the path in `paths` of the configuration.',
  ],
  [
    failureOfBody('not_json'),
    'the answer is not JSON',
    'A proxy may stand in between: check INTAKE_BASE_URL, then run again later.',
  ],
  [failureOfBody('encoding'), 'the compressed answer cannot be unpacked', LATER],
  [
    failureOfBody('too_deep'),
    'the answer is nested too deeply to read',
    'A record in it nests too deeply: ask the service’s operators to fix it.',
  ],
  [
    failureOfBody('too_large'),
    'the answer is larger than we accept',
    'Set a smaller `pageSize` in the configuration.',
  ],
  [
    fault('ENOTFOUND'),
    'cannot reach host:443 (ENOTFOUND)',
    'Check INTAKE_BASE_URL, the network and any proxy.',
  ],
  [
    fault('CERT_HAS_EXPIRED'),
    'no secure connection to host:443 (CERT_HAS_EXPIRED)',
    'Check INTAKE_BASE_URL and the certificate; NODE_EXTRA_CA_CERTS adds an authority of your own.',
  ],
  [fault('UND_ERR_HEADERS_TIMEOUT'), 'no answer came in time', LATER],
  [fault('UND_ERR_BODY_TIMEOUT'), 'the answer stopped half-way', LATER],
  [fault('ATTEMPT_TIMEOUT'), 'the answer took too long', LATER],
  [fault('ECONNRESET'), 'the connection broke before the whole answer came (ECONNRESET)', LATER],
  [fault(), 'the connection broke before the whole answer came', LATER],
])('a failed read and a failed write: %#', (failure, what, hint) => {
  const { code, verdict, status, gaveUp = false } = failure
  const known = { name: 'ApiError', code, verdict, status, gaveUp, outcomeKnown: true, hint }
  expect(new ApiError('GET', '/v2/forms', failure, 1, true)).toMatchObject({
    ...{ ...known, tries: 1 },
    message: `GET /v2/forms: ${what}`,
  })
  expect(new ApiError('POST', '/v2/forms', failure, 2, false)).toMatchObject({
    ...{ ...known, tries: 2, outcomeKnown: failure.untouched },
    message: `POST /v2/forms: ${what}, after 2 tries${failure.untouched ? '' : '; whether it took effect is not known'}`,
    ...(failure.untouched
      ? {}
      : { verdict: 'stop', hint: 'Check whether the change took effect before repeating it.' }),
  })
})
