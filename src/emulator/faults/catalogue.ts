/** The faults that the emulator can inject. A fault of a webhook event applies when the event is created, not to its retries. */

/** Faults of webhook delivery. Milliseconds are of real time. */
const WEBHOOK_FAULTS = {
  'webhook-duplicate': 'sends an event twice at the same moment, under one id',
  'webhook-reorder': 'holds an event back until the next one was sent, or for a second',
  'webhook-delay': 'holds an event back; argument: milliseconds (1000)',
  'webhook-drop': 'never sends an event, and keeps no record of it',
  'webhook-forge': 'sends an event first with altered data and a signature of another secret',
  'webhook-rerender':
    'sends an acknowledged event again, with the data of then; argument: milliseconds later (500)',
  'webhook-off':
    'switches the endpoint off silently until it is configured anew; argument: after how many events (0)',
} as const

/** Name, and what it does. An argument stands after a colon, or alone where it cannot be read as a probability. */
export const FAULTS = {
  throttle: 'answers 429 though no limit was passed; argument: seconds in Retry-After (1)',
  'throttle-burst': 'answers 429 to so many requests in a row; argument: how many (10)',
  'throttle-silent': 'answers 429 without Retry-After, the sentence without a number',
  'http-500': 'answers 500 with a detail',
  'http-503': 'answers 503 with Retry-After; argument: its seconds (1)',
  'html-502': 'answers 502 with an HTML page, as proxies do',
  'html-504': 'answers 504 with an HTML page',
  'html-200': 'answers 200 with an HTML page',
  reset: 'closes the connection before answering',
  hang: 'takes the request and never answers',
  slow: 'waits before answering; argument: milliseconds (1000)',
  drip: 'sends the body in ten pieces; argument: milliseconds between two (200)',
  truncate: 'closes the connection in the middle of the body',
  'cut-json': 'ends the body early, as if that were all of it',
  'corrupt-json': 'damages one byte of the body so that it is not JSON',
  'invalid-utf8': 'puts a byte that is not UTF-8 in the middle of a text',
  'empty-body': 'answers 200 with nothing',
  redirect: 'answers 302; argument: other-origin (default), slash',
  'next-elsewhere': 'makes `next` point to another origin',
  'next-loop': 'makes `next` point to the page itself',
  'repeat-page': 'sends the rows of the page before',
  'shift-rows': 'moves a page by one row, so that a row is repeated or skipped',
  'duplicate-rows': 'sends one row of the page twice',
  'drop-rows': 'leaves one row of the page out',
  'wrong-count': 'tells a wrong `count`; argument: how much is added (7)',
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
