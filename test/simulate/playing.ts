/** Plays a script: its next step is offered when its condition holds. */
import type { Scene } from './scene.ts'
import type { Offer } from './scheduler.ts'
import { SCRIPT, type Step } from './scripts.ts'

export interface Playing {
  readonly isOver: boolean
  /** A night that is checked before the script continues. */
  readonly night: Extract<Step, { kind: 'night' }> | null
  judged(): void
  offers(): readonly Offer[]
}

/** More than for other offers: the subject of a script has to happen soon. */
const WEIGHT = 3

export function playScript(scene: Scene): Playing {
  const name = scene.plan.script
  const script = name === null ? null : SCRIPT[name](scene)
  let step: Step | null = { kind: 'wait', label: 'begins', when: () => true }
  const goOn = () => {
    const next = script!.next()
    step = next.done === true ? null : next.value
  }
  return {
    get isOver() {
      return script === null || step === null
    },
    get night() {
      return step?.kind === 'night' ? step : null
    },
    judged: goOn,
    offers() {
      if (script === null || step?.kind !== 'wait' || !step.when()) return []
      return [{ label: `${name}: ${step.label}`, weight: WEIGHT, act: goOn }]
    },
  }
}
