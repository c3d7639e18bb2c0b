/**
 * A service that changes while it is read: its clinic works, and users of the service change what no clinic does: names
 * of forms, webhook configurations, and the log of deliveries.
 *
 * Invariant: after `still`, nothing at the service changes on its own.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Emulator } from '../../../src/emulator/server.ts'
import type { Webhooks } from '../../../src/emulator/webhooks/engine.ts'
import { DEFAULTS } from '../../../src/emulator/webhooks/webhook-configs.ts'
import { changeSomething } from '../../../src/emulator/world/clinic-changes.ts'
import { Draw, keyOf } from '../../../src/emulator/world/draw.ts'

export interface Life {
  still(): Promise<void>
}

/**
 * From now on, each request causes this many changes, and `changes` happen at once: a slow reader meets as many as a
 * fast one. `seed` decides which.
 */
export function liven(
  emulator: Emulator,
  { each, changes }: { each: number; changes: number },
  seed: string,
): Life {
  const { control } = emulator
  const world = control.world()
  const ofOld = world.messages.end
  const key = keyOf(seed, 'living')
  const people = ownPeople(emulator)
  let done = 0
  const goOn = () => {
    for (const due = changes + each * control.counters().requests; done < due; done += 1) {
      if (done % 2 === 0) changeSomething(world, new Draw(key, done))
      else people[Math.floor(done / 2) % people.length]!(done)
    }
  }
  goOn()
  const timer = setInterval(goOn, 2)
  return {
    async still() {
      clearInterval(timer)
      // Only old messages wait for their scheduled time.
      control.advance(60_000)
      await until(() => {
        for (let at = ofOld; at < world.messages.end; at++) {
          if (['pending', 'scheduled'].includes(world.messages.at(at)?.status ?? '')) return false
        }
        return true
      })
    },
  }
}

/** The changes in turn; no configuration is active, so that no event is sent and retried later. */
function ownPeople({ control }: Emulator): readonly ((times: number) => void)[] {
  const world = control.world()
  const { configs, attempts } = control.webhooks() as Webhooks
  const configIds: string[] = []
  const born = attempts.listing().size
  const addConfig = (times: number) => {
    const target_url = `http://127.0.0.1:9/hook/${times}`
    configIds.push(configs.create({ ...DEFAULTS, target_url, is_active: false }, 'v2.1').id)
  }
  return [
    addConfig,
    addConfig,
    (times) => {
      const form = world.forms.at(times % world.forms.end)
      if (form !== undefined) control.renameForm(form.id, `Form ${times}`)
    },
    (times) => {
      // Two attempts; where attempts carry the id of their event, they share it.
      for (const at of [1, 2]) attempts.add(attemptOf(born + times, at, configIds[0]!, world.now()))
    },
    (times) => {
      const patient = world.patients.at(times % world.patients.end)
      for (const last_name of ['Twice', `In a moment ${times}`]) {
        if (patient !== undefined) control.updatePatient(patient.id, { last_name })
      }
    },
    (times) => {
      configs.change(configIds.at(-1)!, {
        sources: times % 2 === 0 ? ['patient'] : ['form', 'message'],
      } as never)
      if (times % 3 === 0 && configIds.length > 2) configs.table.remove(configIds.splice(1, 1)[0]!)
    },
  ]
}

function attemptOf(event: number, at: number, webhook_config: string, created_at: string) {
  const place = String(event).padStart(8, '0')
  return {
    id: `${place}-0000-4000-8000-00000000000${at}`,
    event_id: `${place}-0000-4000-9000-000000000000`,
    ...({ webhook_config, event_type: 'updated', source: 'response' } as const),
    status: at === 1 ? ('failed' as const) : ('succeeded' as const),
    response_status_code: at === 1 ? 500 : 204,
    attempts: at,
    error: at === 1 ? 'refused' : null,
    created_at,
    next_retry_at: at === 1 ? created_at : null,
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !condition(); await sleep(10)) {
    if (Date.now() > deadline) throw new Error('the service did not come to rest in a minute')
  }
}
