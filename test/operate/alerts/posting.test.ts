/** How a post is sent, how long it may take, and the reasons that an error may name: never a text with the URL in it. */
import { beforeEach, expect, test, vi } from 'vitest'
import { isSigned } from '../../../src/core/signature.ts'
import { post } from '../../../src/operate/alerts/post.ts'

const sent = vi.hoisted(() => ({
  requests: [] as { url: string; options: Record<string, unknown> }[],
  agents: [] as { options: unknown; isDestroyed: boolean }[],
  answer: async (): Promise<unknown> => ({}),
}))
vi.mock('undici', () => ({
  Agent: class {
    own
    constructor(options: unknown) {
      this.own = { options, isDestroyed: false }
      sent.agents.push(this.own)
    }
    async destroy() {
      this.own.isDestroyed = true
    }
  },
  request: (url: string, options: Record<string, unknown>) => {
    sent.requests.push({ url, options })
    return sent.answer()
  },
}))

const PLACE = { url: 'https://there/a-token', secret: 'of the receiver' }
const answered = (statusCode: number) => {
  const body = { isDestroyed: false, listeners: [] as string[], destroy: () => {}, on: () => {} }
  Object.assign(body, {
    destroy: () => Object.assign(body, { isDestroyed: true }),
    on: (name: string) => body.listeners.push(name),
  })
  sent.answer = async () => ({ statusCode, body })
  return body
}
const posting = (more: object = {}) =>
  post(PLACE, [], { now: new Date(0), signal: new AbortController().signal, version: '1', ...more })

beforeEach(() => {
  sent.requests.length = 0
  sent.agents.length = 0
})

test('a post is one signed request whose answer is not read, by a connection that ends with it', async () => {
  const body = answered(204)
  await posting()
  const [{ url, options } = { url: '', options: {} }, ...more] = sent.requests
  const {
    body: bytes,
    signal,
    dispatcher: _,
    ...rest
  } = options as { body: Buffer; signal: AbortSignal; dispatcher: unknown }
  expect([url, more, signal.aborted]).toEqual([PLACE.url, [], false])
  expect(rest).toEqual({
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', 'user-agent': 'intake-sync/1' },
      'x-service-signature': expect.stringMatching(/^[0-9a-f]{64}$/),
    },
  })
  const { headers } = rest as unknown as { headers: Record<string, string> }
  expect(isSigned(bytes, headers['x-service-signature']!, [PLACE.secret])).toBe(true)
  expect(body).toMatchObject({ isDestroyed: true, listeners: ['error'] })
  // Our own limit of ten seconds ends the request before these do.
  const limits = { connect: { timeout: 11_000 }, headersTimeout: 11_000, bodyTimeout: 11_000 }
  expect(sent.agents).toEqual([{ isDestroyed: true, options: { ...limits, pipelining: 0 } }])
})

test('a post may take ten seconds', async () => {
  vi.useFakeTimers()
  try {
    sent.answer = () =>
      new Promise((_, reject) => {
        const { signal } = sent.requests.at(-1)!.options as { signal: AbortSignal }
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    const late = expect(posting()).rejects.toMatchObject({
      ...{ code: 'alerts_refused', verdict: 'retry' },
      message: 'INTAKE_ALERT_URL did not accept the alerts: no response within 10 seconds',
    })
    await vi.advanceTimersByTimeAsync(9_999)
    expect((sent.requests[0]!.options.signal as AbortSignal).aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await late
    expect(vi.getTimerCount()).toBe(0)
    answered(200)
    await posting()
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

test.each<[reason: unknown, said: string]>([
  [Object.assign(new Error('connect https://there/a-token'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  [new Error('cannot reach https://there/a-token'), 'it could not be reached'],
  [Object.assign(new Error('x'), { code: 7 }), 'it could not be reached'],
])('a request that fails for %s says: %s', async (reason, said) => {
  sent.answer = () => Promise.reject(reason)
  await expect(posting()).rejects.toMatchObject({
    ...{ code: 'alerts_refused', hint: 'check INTAKE_ALERT_URL, and that its receiver is running' },
    message: `INTAKE_ALERT_URL did not accept the alerts: ${said}`,
  })
  expect(sent.agents).toMatchObject([{ isDestroyed: true }])
})
