/** Patients of ordinary size: contact for two in three, up to three tags, up to two custom fields. */
import { patients } from '../../src/streams/patients.ts'
import { type Sample, sampleOf, stampOf, uuid } from './pages.ts'

const FIRST = ['Ana', 'Björn', 'Chloé', 'Dmitri', 'Eun-ji', 'Fatima', "G'Day", 'Hana', 'İpek', 'José']
const LAST = [
  'Nguyễn',
  'O’Neill',
  'van der Berg',
  'Smith',
  'Kowalska',
  'Okafor',
  '王',
  'García Márquez',
  'Ivanova',
  'Li',
]

export const patientSample: Sample = sampleOf(patients, 500, patient)

/** The names, address and number of a patient, as responses show them too. */
export function person(index: number) {
  return {
    id: uuid(index),
    external_id: `EHR-${index}`,
    first_name: FIRST[index % FIRST.length]!,
    last_name: LAST[Math.trunc(index / 7) % LAST.length]!,
    email: `person${index}@example.com`,
    phone_number: String(5_550_000_000 + index),
  }
}

export function patient(index: number) {
  const { first_name, last_name, ...others } = person(index)
  const stamp = stampOf(index)
  return {
    ...others,
    first_name,
    last_name,
    date_birth: `19${String(30 + (index % 70)).padStart(2, '0')}-0${(index % 9) + 1}-2${index % 8}`,
    sex_at_birth: index % 2 === 0 ? 'Female' : 'Male',
    provider: index % 3 === 0 ? null : `provider-${index % 17}`,
    address: `${index % 900} Harbour Road`,
    address2: index % 5 === 0 ? `Apt ${index % 40}` : '',
    city: 'Springfield',
    state: 'MA',
    zipcode: String(10_000 + (index % 80_000)),
    emergency_contact:
      index % 3 === 0
        ? null
        : {
            first_name: last_name,
            last_name: first_name,
            phone_number: '5550199',
            relationship: 'Sibling',
          },
    patient_tags: Array.from({ length: index % 4 }, (_, at) => ({ name: `Tag ${at}`, color: '#00ff00' })),
    custom_fields: index % 3 === 1 ? { plan: `Plan ${index % 9}`, mrn: String(index) } : {},
    created_at: stamp,
    updated_at: stamp,
  }
}
