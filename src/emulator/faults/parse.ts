/**
 * Reads a specification of faults, such as `throttle=0.1:2,webhook-drop@response=0.1`.
 *
 * Invariant: a specification is read as a whole or refused with a `RangeError`.
 */
import { EVENT_SOURCES } from '../world/world.ts'
import { FAULTS, type FaultName, isWebhookFault, NUMERIC } from './catalogue.ts'

export interface FaultRule {
  readonly name: FaultName
  /** From 0 to 1. */
  readonly probability: number
  readonly argument: string | null
  /** Only requests whose path begins with `/v2/<resource>`, or events of this source; null for all. */
  readonly resource: string | null
}

/** Reads `name[@resource][=probability[:argument]]`, comma-separated. Throws `RangeError` with the reason. */
export function parseFaults(spec: string): FaultRule[] {
  const parts = spec.split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '' && part !== 'none').map(parseRule)
}

function parseRule(text: string): FaultRule {
  const [, name = '', resource = null, value = ''] = /^([^@=]*)(?:@([^=]*))?(?:=(.*))?$/.exec(text) ?? []
  if (!Object.hasOwn(FAULTS, name)) {
    throw new RangeError(`no fault is named "${name}"; there are ${Object.keys(FAULTS).join(', ')}`)
  }
  if (isWebhookFault(name) && resource !== null && !EVENT_SOURCES.some((source) => source === resource)) {
    throw new RangeError(`"${resource}" in "${text}" is not a source of events`)
  }
  const rule = { name: name as FaultName, resource }
  if (value === '') return { ...rule, probability: 1, argument: null }
  const [head = '', ...rest] = value.split(':')
  const probability = Number(head)
  if (rest.length > 0 || (name !== 'clock-skew' && isShare(probability))) {
    if (!isShare(probability)) throw new RangeError(`"${head}" in "${text}" is not a probability from 0 to 1`)
    return { ...rule, probability, argument: checked(name, rest.length > 0 ? rest.join(':') : null) }
  }
  return { ...rule, probability: 1, argument: checked(name, value) }
}

function isShare(value: number): boolean {
  return value >= 0 && value <= 1
}

function checked(name: string, argument: string | null): string | null {
  if (argument === null) return null
  const fits =
    name === 'redirect'
      ? argument === 'other-origin' || argument === 'slash'
      : NUMERIC.has(name) && argument.trim() !== '' && Number.isFinite(Number(argument))
  if (!fits)
    throw new RangeError(`"${argument}" is not a value of the fault "${name}": ${FAULTS[name as FaultName]}`)
  return argument
}
