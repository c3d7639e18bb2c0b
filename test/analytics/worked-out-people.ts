/** Expected places of patients (query 09) and ages (08, 19), from the emulator's own records. */
import type { Patient } from '../../src/emulator/world/records.ts'
import { grouped, type Line } from './grouped.ts'

/** Places of the emulator: one outside the list of states, and the area with few people. */
const [ABROAD, SMALL] = ['QC', '879']

export function whereTheyLive(patients: readonly Patient[]): Line[] {
  const places = patients.map(({ state, zipcode }) => {
    const zip = /^(\d{3})\d{2}(-\d{4})?$/.exec(zipcode)?.[1] ?? null
    return {
      state: state === '' || state === ABROAD ? null : state,
      zip3: zip === SMALL ? '000' : zip,
    }
  })
  const areas = grouped(places, (place) => place).map((group) => ({
    state: group[0]!.state,
    area: group.length >= 11 ? group[0]!.zip3 : 'small',
    patients: group.length,
  }))
  return grouped(areas, ({ state, area }) => [state, area]).map((group) => ({
    ...group[0]!,
    patients: group.reduce((sum, each) => sum + each.patients, 0),
  }))
}

export function aged(born: string | null): { age_band: string | null } {
  if (born === null) return { age_band: null }
  const [now, then] = [new Date(), new Date(born)]
  const had = [now.getUTCMonth() - then.getUTCMonth(), now.getUTCDate() - then.getUTCDate()]
  const age =
    now.getUTCFullYear() - then.getUTCFullYear() - (had[0]! < 0 || (had[0] === 0 && had[1]! < 0) ? 1 : 0)
  if (age < 0) return { age_band: null }
  const from = Math.floor(age / 10) * 10
  return { age_band: age >= 90 ? '90+' : `${from}-${from + 9}` }
}
