import { ANSWERS } from './answers.ts'
import { CELLS } from './cells.ts'
import { FORMS } from './forms.ts'
import { HISTORY } from './history.ts'
import { OUTCOMES } from './outcomes.ts'
import { PACKETS } from './packets.ts'
import { PARTS } from './parts.ts'
import { PATIENTS } from './patients.ts'
import { REQUESTS } from './requests.ts'
import { RESEARCHERS } from './researchers.ts'
import { RESOURCES } from './resources.ts'
import { TERMS } from './terms.ts'

export const WORLDS = [
  PATIENTS,
  REQUESTS,
  OUTCOMES,
  PACKETS,
  ANSWERS,
  PARTS,
  CELLS,
  HISTORY,
  RESOURCES,
  TERMS,
  FORMS,
  RESEARCHERS,
]
