"""A stored reference robot as a Pinocchio model, built from the stored arrays and not through this project's models."""

import numpy as np


def build(pin, model, data):
    """pin.Model with the joints and inertias of `data` (see `load_reference`) and the armature of `model`.

    Continuous joints become revolute ones: q is one angle here.
    """
    peer = pin.Model()
    several = {
        "FreeFlyer": pin.JointModelFreeFlyer,
        "Spherical": pin.JointModelSpherical,
        "Planar": pin.JointModelPlanar,
        "Translation": pin.JointModelTranslation,
    }
    for i in range(1, int(data["njoints"])):
        kind, S = str(data["joint_types"][i]), data["S"][:, data["idx_v"][i]]
        if kind in several:
            joint = several[kind]()
        elif kind.startswith("P"):
            joint = pin.JointModelPrismaticUnaligned(S[:3].copy())
        else:
            joint = pin.JointModelRevoluteUnaligned(S[3:].copy())
        placement = pin.SE3(data["joint_R"][i].copy(), data["joint_t"][i].copy())
        number = peer.addJoint(int(data["parents"][i]), joint, placement, str(data["joint_names"][i]))
        inertia = pin.Inertia(float(data["body_mass"][i]), data["body_com"][i].copy(), data["body_inertia"][i].copy())
        peer.appendBodyToJoint(number, inertia, pin.SE3.Identity())
    peer.armature = np.array(model.armature)
    return peer


def configuration(data, q):
    """q (nq,) with the angles of planar joints as cos and sin."""
    parts = []
    for i in range(1, int(data["njoints"])):
        x = q[data["idx_q"][i] : data["idx_q"][i] + data["nqs"][i]]
        planar = str(data["joint_types"][i]) == "Planar"
        parts.append([x[0], x[1], np.cos(x[2]), np.sin(x[2])] if planar else x)
    return np.concatenate(parts)


def forces(pin, wrenches):
    """Wrenches (nb, 6), [force; moment] in the body frames, for Pinocchio: the universe comes first."""
    return [pin.Force.Zero(), *(pin.Force(w[:3].copy(), w[3:].copy()) for w in wrenches)]


def contacts(pin, peer, model, contacts):
    """Contacts as Pinocchio's constraints: the model's data and the two vectors it asks for.

    Its feet differ from ours: spatial instead of classical accelerations, the same where the foot rests, and another
    position error, so that only gains (0, kd) compare."""
    theirs, datas, state = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData(), peer.createData()
    for contact in contacts:
        frame = model.frame(contact.frame)
        axes = pin.ReferenceFrame.LOCAL if contact.axes == "local" else pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        point, fixed = pin.SE3(frame.R.copy(), frame.p.copy()), pin.SE3(*(x.copy() for x in contact.pose))
        kind = pin.ContactType.CONTACT_3D if contact.turns else pin.ContactType.CONTACT_6D
        constraint = pin.RigidConstraintModel(kind, peer, frame.body + 1, point, 0, fixed, axes)
        constraint.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(*contact.gains))
        theirs.append(constraint)
        datas.append(constraint.createData())
    pin.initConstraintDynamics(peer, state, theirs, datas)
    return state, theirs, datas


def of_model(pin, model):
    """pin.Model of a robot of joints without continuous and planar ones."""
    several = {"FreeFlyer": pin.JointModelFreeFlyer, "Spherical": pin.JointModelSpherical}
    peer, m = pin.Model(), model.arrays
    peer.gravity.linear = np.array(model.gravity)
    for i, joint in enumerate(model.joints):
        blocks = m.rotation[i].reshape(3, 3, 3)
        turns = joint.type_name == "Revolute"
        R = blocks[0] + blocks[1] if turns else blocks[0]
        if joint.type_name in several:
            theirs = several[joint.type_name]()
        else:
            kind = pin.JointModelRevoluteUnaligned if turns else pin.JointModelPrismaticUnaligned
            theirs = kind(np.array(joint.axis, dtype=float))
        number = peer.addJoint(int(m.parent[i]) + 1, theirs, pin.SE3(R, m.translation[i].copy()), model.joint_names[i])
        xx, xy, xz, yy, yz, zz = m.rotational_inertia[i]
        about, com = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), m.first_moment[i] / m.mass[i]
        central = about - m.mass[i] * (com @ com * np.eye(3) - np.outer(com, com))
        peer.appendBodyToJoint(number, pin.Inertia(float(m.mass[i]), com, central), pin.SE3.Identity())
    peer.armature = np.array(model.armature)
    return peer
