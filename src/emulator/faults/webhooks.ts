/**
 * Faults of webhook delivery. In a specification, `@` names the source of the events: `webhook-drop@response=0.1`.
 *
 * Invariant: a fault strikes an event once, when it is made; its retries are sent as they would have been.
 */
import { EVENT_SOURCES } from '../world/world.ts'

/** Name, and what it does. Milliseconds are of real time. */
export const WEBHOOK_FAULTS = {
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

export const NUMERIC_WEBHOOK_FAULTS = ['webhook-delay', 'webhook-rerender', 'webhook-off'] as const

export function isWebhookFault(name: string): boolean {
  return Object.hasOwn(WEBHOOK_FAULTS, name)
}

export function isEventSource(name: string): boolean {
  return EVENT_SOURCES.some((source) => source === name)
}
