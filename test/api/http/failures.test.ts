/** Every status and every fault has a verdict, says whether to try again, and whether anything was done. */
import { describe, expect, test } from 'vitest'
import {
  failureOfBody,
  failureOfFault,
  failureOfRedirect,
  failureOfStatus,
  failureOfThrottling,
} from '../../../src/api/http/failures.ts'

describe('the status', () => {
  test.each([
    [401, 'no_credentials', 'stop', 'never', true],
    [403, 'bad_credentials', 'stop', 'never', true],
    [404, 'not_found', 'gone', 'never', true],
    [410, 'not_found', 'gone', 'never', true],
    [405, 'not_allowed', 'stop', 'never', true],
    [429, 'throttled', 'retry', 'throttled', true],
    [408, 'unavailable', 'retry', 'backoff', true],
    [425, 'unavailable', 'retry', 'backoff', true],
    [500, 'unavailable', 'retry', 'backoff', false],
    [503, 'unavailable', 'retry', 'backoff', false],
    [599, 'unavailable', 'retry', 'backoff', false],
    [100, 'unexpected_status', 'stop', 'never', true],
    [199, 'unexpected_status', 'stop', 'never', true],
    ...[402, 406, 407, 411, 415, 417, 421, 426, 428, 431].map(
      (status) => [status, 'misconfigured', 'stop', 'never', true] as const,
    ),
    ...[501, 505, 511].map((status) => [status, 'misconfigured', 'stop', 'never', false] as const),
  ] as const)('%i is %s: %s, again %s, untouched %s', (status, code, verdict, again, untouched) => {
    for (const one of [true, false]) {
      const failure = failureOfStatus(status, one)
      expect(failure).toMatchObject({ code, verdict, again, untouched, status })
      expect(failure.what).toContain(`(${status})`)
    }
  })

  test.each([400, 409, 418, 422, 451, 499])(
    '%i is about one record if the request names one, else about all',
    (status) => {
      const refused = { code: 'refused', again: 'never', untouched: true, status }
      expect(failureOfStatus(status, true)).toMatchObject({ ...refused, verdict: 'dead_letter' })
      expect(failureOfStatus(status, false)).toMatchObject({ ...refused, verdict: 'stop' })
    },
  )
})

test.each([
  [301, true],
  [302, false],
  [303, false],
  [307, true],
  [308, true],
])('a redirect with %i stops; a write may have been done: untouched %s', (status, untouched) => {
  const redirected = { code: 'redirected', verdict: 'stop', again: 'never', status, untouched }
  const [slash, elsewhere] = [failureOfRedirect(status, true), failureOfRedirect(status, false)]
  expect([slash, elsewhere]).toMatchObject([redirected, redirected])
  expect(slash.what).toContain('slash')
  expect(slash.hint).toContain('paths')
  expect(elsewhere.what).not.toContain('slash')
  expect(elsewhere.hint).toContain('INTAKE_BASE_URL')
})

test.each([
  ['not_json', 'not_json', 'retry', 'backoff'],
  ['encoding', 'bad_encoding', 'retry', 'backoff'],
  ['too_deep', 'too_deep', 'stop', 'never'],
  ['too_large', 'too_large', 'stop', 'never'],
] as const)(
  'a body that is %s is %s: %s, again %s, and something may have been done',
  (fault, code, verdict, again) => {
    expect(failureOfBody(fault)).toEqual({
      ...{ code, verdict, again, untouched: false },
      ...{ what: expect.any(String), hint: expect.any(String) },
    })
  },
)

test.each([
  [90_000, '90s'],
  [60_000, '1m'],
  [900_000, '15m'],
  [3_600_000, '1h'],
  [7_200_000, '2h'],
  [5_400_000, '90m'],
])('a call that gives up after %i ms names the limit as it is configured: %s', (limit, text) => {
  const failure = failureOfThrottling('gave_up', limit)
  expect(failure).toMatchObject({
    code: 'throttled',
    verdict: 'retry',
    again: 'never',
    status: 429,
    untouched: true,
  })
  expect(failure.what).toContain(`accepted no request for ${text} (429)`)
  expect(failure.hint).toContain(`INTAKE_GIVE_UP_AFTER (${text})`)
  expect(failureOfThrottling('too_long', limit).what).toContain(`longer than ${text}`)
})

describe('a fault of the network', () => {
  const fault = (code: unknown) => Object.assign(new Error('jane.doe@example.com'), { code })
  const failureOf = (thrown: unknown) => failureOfFault(thrown, 'forms.example.com:443')

  test.each([
    ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL'],
    'UND_ERR_CONNECT_TIMEOUT',
  ])('%s: the host is not reached, and nothing was done', (code) => {
    const failure = failureOf(fault(code))
    expect(failure).toMatchObject({ code: 'unreachable', verdict: 'retry', again: 'soon', untouched: true })
    expect(failure.what).toBe(`cannot reach forms.example.com:443 (${code})`)
  })

  test.each([
    ...[
      'CERT_HAS_EXPIRED',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_SSL_WRONG_VERSION',
    ],
    ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_OSSL_EVP', 'EALTNAME'],
  ])('%s: there is no secure connection, and another attempt is useless', (code) => {
    const failure = failureOf(fault(code))
    expect(failure).toMatchObject({ code: 'tls', verdict: 'stop', again: 'never', untouched: true })
    expect(failure.what).toContain(`forms.example.com:443 (${code})`)
  })

  test.each(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'ATTEMPT_TIMEOUT'])(
    '%s: time ran out',
    (code) => {
      expect(failureOf(fault(code))).toMatchObject({
        code: 'timeout',
        verdict: 'retry',
        again: 'backoff',
        untouched: false,
      })
    },
  )

  test.each([
    fault('ECONNRESET'),
    fault('UND_ERR'),
    fault(77),
    fault('has blanks'),
    fault('X'),
    new Error('x'),
    'x',
    null,
  ])('any other breaks the connection, and something may have been done (%#)', (thrown) => {
    expect(failureOf(thrown)).toMatchObject({
      code: 'connection_lost',
      verdict: 'retry',
      again: 'backoff',
      untouched: false,
    })
  })

  test('is found below other errors, in the first of several, and no deeper than three causes', () => {
    const below = (levels: number): Error => {
      let error: Error = fault('ECONNREFUSED')
      for (let level = 0; level < levels; level++) error = new Error('outer', { cause: error })
      return error
    }
    expect(failureOf(below(3)).code).toBe('unreachable')
    expect(failureOf(below(4)).code).toBe('connection_lost')
    expect(failureOf(new AggregateError([fault('ENOTFOUND'), fault('ECONNRESET')])).code).toBe('unreachable')
    expect(failureOf(new AggregateError([])).code).toBe('connection_lost')
    expect(
      failureOf(Object.assign(new Error('x', { cause: fault('ENOTFOUND') }), { code: 'UND_ERR' })).code,
    ).toBe('unreachable')
  })

  test('is named by its code, and by nothing that a library says', () => {
    expect(failureOf(fault('ECONNRESET')).what).toContain('(ECONNRESET)')
    for (const code of ['jane doe', 'ECONNRESET jane', 'jane ECONNRESET', 77]) {
      expect(failureOf(fault(code)).what).toBe('the connection broke before the whole answer came')
    }
    expect(JSON.stringify(failureOf(fault('ECONNRESET')))).not.toContain('jane')
  })
})
