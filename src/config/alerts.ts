/** Address and thresholds of alerts. Invariant: no part of the address is ever shown; its path may be a secret. */
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { durationShape } from './settings.ts'
import { LOOPBACK } from './team.ts'

export interface AlertConfig {
  readonly url: string
  /** Null: posts are not signed. */
  readonly secret: string | null
  /** Maximum age of the oldest pending event, in seconds. */
  readonly inboxSeconds: number
  /** Maximum time since the last backfill of a stream, in hours; null: unlimited. */
  readonly maxAgeHours: number | null
}

export const durations = {
  inboxAge: durationShape,
  maxAge: z.literal('off').or(durationShape),
} as const

interface Given {
  readonly url: string | null
  readonly secret: string | null
  readonly inboxSeconds: number | null
  /** In seconds. */
  readonly maxAge: number | 'off' | null
  readonly allowHttp: boolean
}

export function alertsOf({ url, secret, inboxSeconds, maxAge, allowHttp }: Given): AlertConfig | null {
  if (url === null) return null
  return Object.freeze({
    url: checkedUrl(url, allowHttp),
    secret,
    inboxSeconds: inboxSeconds ?? 300,
    maxAgeHours: maxAge === 'off' ? null : (maxAge ?? 26 * 3_600) / 3_600,
  })
}

/** A query is as good as a path: many receivers tell their callers by it. */
function checkedUrl(text: string, allowHttp: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    return fail('is not an http(s) URL', 'write it as https://host/path')
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    return fail('holds a user, a password or a fragment', 'leave them out; posts are signed')
  if (url.protocol === 'http:' && !allowHttp && !LOOPBACK.test(url.hostname))
    return fail(
      'is http, which anybody on the way can read',
      'use https, or set INTAKE_ALLOW_HTTP=1 if the network is private',
    )
  return url.href
}

function fail(what: string, hint: string): never {
  throw new UsageError(`INTAKE_ALERT_URL ${what}`, hint, 'INTAKE_ALERT_URL')
}
