/** The faults that the emulator can inject. A fault of a webhook event applies when the event is created, not to its retries. */

/** Faults of webhook delivery. Milliseconds are of real time. */
const WEBHOOK_FAULTS = {
  'webhook-duplicate': 'sends an event twice at the same moment, under one id',
  'webhook-reorder': 'delays an event until the next one was sent, or for a second',
  'webhook-delay': 'delays an event; argument: milliseconds (1000)',
  'webhook-drop': 'never sends an event, and does not record it',
  'webhook-forge': 'first sends the event with altered data, signed with another secret',
  'webhook-rerender': 'sends an acknowledged event again with newer data; argument: milliseconds later (500)',
  'webhook-off':
    'disables the endpoint silently until it is configured again; argument: after how many events (0)',
} as const

/** Name and effect of each fault. An argument follows a colon, or stands alone if it is not a probability. */
export const FAULTS = {
  throttle: 'answers 429 although no limit was exceeded; argument: seconds in Retry-After (1)',
  'throttle-burst': 'answers 429 to several requests in a row; argument: how many (10)',
  'throttle-silent': 'answers 429 without Retry-After and without a number in the sentence',
  'http-500': 'answers 500 with a detail',
  'http-503': 'answers 503 with Retry-After; argument: its seconds (1)',
  'html-502': 'answers 502 with an HTML page, as proxies do',
  'html-504': 'answers 504 with an HTML page',
  'html-200': 'answers 200 with an HTML page',
  reset: 'closes the connection before answering',
  hang: 'takes the request and never answers',
  slow: 'waits before answering; argument: milliseconds (1000)',
  drip: 'sends the body in ten pieces; argument: milliseconds between pieces (200)',
  truncate: 'closes the connection in the middle of the body',
  'cut-json': 'ends the body early, as if it were complete',
  'corrupt-json': 'damages one byte of the body so that it is not JSON',
  'invalid-utf8': 'puts a byte that is not UTF-8 in the middle of a text',
  'empty-body': 'answers 200 with nothing',
  redirect: 'answers 302; argument: other-origin (default), slash',
  'next-elsewhere': 'makes `next` point to another origin',
  'next-loop': 'makes `next` point to the page itself',
  'repeat-page': 'sends the rows of the previous page',
  'shift-rows': 'moves a page by one row, so that a row is repeated or skipped',
  'duplicate-rows': 'sends one row of the page twice',
  'drop-rows': 'omits one row of the page',
  'wrong-count': 'reports a wrong `count`; argument: how much is added (7)',
  'clock-skew': 'sets the service’s clock wrong for records and the Date header; argument: seconds',
  ...WEBHOOK_FAULTS,
} as const

export type FaultName = keyof typeof FAULTS

/** Faults whose argument is a number. */
export const NUMERIC: ReadonlySet<string> = new Set<FaultName>([
  ...(['throttle', 'throttle-burst', 'http-503', 'slow', 'drip', 'wrong-count', 'clock-skew'] as const),
  ...(['webhook-delay', 'webhook-rerender', 'webhook-off'] as const),
])

export function isWebhookFault(name: string): boolean {
  return Object.hasOwn(WEBHOOK_FAULTS, name)
}
